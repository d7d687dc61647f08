"""Minimise the worst group's loss: one player chooses a model in an ℓ1 ball, the other a weighting of the groups."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import sliced
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.groups import GroupedDataset, GroupedLosses, GroupedSigns, GroupedSpecification
from dpviz.privacy.events import Laplace
from dpviz.privacy.releases import Query
from dpviz.problems import base
from dpviz.problems.base import Metric, Plane, evaluated_in_slices
from dpviz.problems.games.games import (
    DEAR_GAP,
    GameFacts,
    GameSpecification,
    Pair,
    Player,
    ball_gradient,
    ball_vertex,
    minimise,
    to_ball,
)
from dpviz.problems.games.grouped import WORST_GROUP, GroupedGame, Rates, rates
from dpviz.problems.games.matrix_games import Equilibrium, bilinear_gap, equilibrium
from dpviz.specification import choice, number

# Passes over the data work on blocks of about this many elements (rows × replicates), which stay in the cache.
BLOCK = 16_000
_OPTIMUM_TOLERANCE = 1e-4
_ROW = 45  # multiplications that take as long as the loss and slope of a row


class Optimum(NamedTuple):
    """The model with the smallest worst group loss, without privacy.

    weights : (d,) the model w; worst_loss : max_h L_h(w), at most 1e-4 above the minimum; group_losses : (G,) L_h(w).
    """

    weights: np.ndarray
    worst_loss: float
    group_losses: np.ndarray


class GroupLoss(GameSpecification):
    """F(u, y) = Σ_h y_h L_h(w), w = r (u₊ - u₋): u weights the 2d vertices of the ℓ1 ball, y the G groups.

    L_h(w) = (1/n) Σ_{i in group h} loss(w; aᵢ, bᵢ) / p_h with declared shares p_h: the mean loss if the share is right,
    else that times the ratio of actual to declared share. The loss is ½ (⟨a, w⟩ - b)² or ln(1 + exp(-b ⟨a, w⟩)).
    """

    kind: ClassVar[str] = "problems.group_loss.worst_group"
    title: ClassVar[str] = "Worst group loss"
    data: GroupedSpecification = GroupedSigns()
    loss: Literal["squared", "logistic"] = choice(
        "squared",
        label="Loss",
        help="Squared: ½ (prediction - label)². Logistic: ln(1 + exp(-label × prediction)).",
        options={"squared": "Squared", "logistic": "Logistic"},
    )
    radius: float = number(
        1.0, 0.5, 5.0, label="Radius", symbol="r", help="The model's weights have ‖w‖₁ ≤ r. Larger = more noise."
    )

    def _plane(self) -> Plane | None:
        data = self.data.facts()
        return base.ball(self.radius, data.d, [f"Weight of {name}" for name in data.names[:2]])

    def facts(self) -> GameFacts:
        """Return the constants of one row with features and label in [-1, 1], whose weight is at most 1/p₋."""
        data, r = self.data.facts(), self.radius
        weight = 1 / data.smallest_share
        if self.loss == "squared":
            slope, loss, curvature = r + 1, (r + 1) ** 2 / 2, 1.0
            third = 0.0
        else:
            slope, loss, curvature = 1.0, float(np.logaddexp(0.0, r)), 0.25
            third = 1 / (6 * math.sqrt(3))  # max |σ''|
        lipschitz_x, largest = weight * r * slope, weight * loss
        sums = len(data.groups) * data.d**2  # of all rows, computed before the run for the squared loss
        return GameFacts(
            n=data.n,
            released=tuple(Laplace(epsilon) for epsilon in data.shares_costs),
            from_data=self.from_data,
            d=2 * data.d + len(data.groups),
            d_x=2 * data.d,
            d_y=len(data.groups),
            lipschitz=max(lipschitz_x, largest),
            oscillation_x=2 * lipschitz_x,
            oscillation_y=largest if len(data.groups) > 1 else 0.0,
            smoothness=max(weight * r**2 * curvature, lipschitz_x),  # the mixed block ∂²f/∂u∂y is bounded by L₀ in x
            smoothness_x=weight * r**2 * curvature,
            smoothness_y=0.0,
            # Third derivatives: thrice in u, and twice in u and once in y, which the squared loss has as well.
            second_smoothness=weight * max(r**3 * third, r**2 * curvature),
            largest_gap=loss,
            right_shares=True,
            products=sums if self.loss == "squared" else data.n * (2.0 * data.d + _ROW),
            table_bytes=16.0 * data.n * data.d + 32 * sums,
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of a vertex of the ℓ1 ball, a feature with its sign; or of a group."""
        data = self.data.facts()
        return data.groups[index] if player == "y" else ball_vertex(data.names, index)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "GroupLossGame":
        return GroupLossGame(self, self.data.load(tables))


class GroupLossGame(GroupedGame):
    """A game of a model against groups with its data; see `GroupLoss`.

    For the squared loss, passes over the whole table use sums that are computed once.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (DEAR_GAP, WORST_GROUP)

    def __init__(self, specification: GroupLoss, data: GroupedDataset) -> None:
        super().__init__(data)
        self.facts = specification.facts()
        self._radius = specification.radius
        self._squared = specification.loss == "squared"
        self._start: np.ndarray | None = None

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the models w (R, d) of the vertex weights x (R, 2d)."""
        return to_ball(x, self._radius)

    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute L_h (R, G) at x (R, 2d), a diagnostic."""
        return self._losses_and_slopes(self.weights(x), None, None)[0]

    def rates(self, x: np.ndarray) -> Rates | None:
        """Compute the rates of the models x (R, 2d) that predict +1 where ⟨a, w⟩ > 0; None unless labels are ±1."""
        return self._rates(self._features @ w > 0 for w in self.weights(x))

    def majority(self) -> Rates | None:
        return self._rates([np.full(len(self._labels), self._labels.sum() > 0)])

    def _rates(self, predictions: Iterable[np.ndarray]) -> Rates | None:
        if not (np.abs(self._labels) == 1).all():
            return None
        by_model = [rates(positive, self._labels, self._groups, len(self.groups)) for positive in predictions]
        return Rates(*np.stack(by_model, axis=1))

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        losses, slopes = self._losses_and_slopes(self.weights(x), y, rows)
        return ball_gradient(slopes, self._radius), losses

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        seconds = self.facts.seconds
        cheap = evaluated_in_slices(self._evaluate, output, seconds)
        if not expensive:
            return cheap
        self.prepare()
        x, y = output["x"], output["y"]
        worst = sliced(self.group_losses, seconds, x).max(axis=1)
        start = np.repeat(self._centre, len(y), axis=0)
        best = minimise(lambda u, active: self._against(u, y[active]), start, self._curvature(y), seconds=seconds)
        return {"duality_gap": np.maximum(worst - best.lower, 0.0)} | cheap

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"worst_group_loss": self.highest_mean(output["x"])}

    def nonprivate_optimum(self) -> Optimum:
        """Return the model that is best in the game, with the declared shares; not private."""
        losses = self.group_losses(self._best_in_game)
        return Optimum(self.weights(self._best_in_game)[0], float(losses.max()), losses[0])

    def best_in_game(self) -> np.ndarray:
        return self._best_in_game

    def fairest(self) -> np.ndarray:
        return self._fairest

    def best_on_average(self) -> np.ndarray:
        return self._best_on_average

    @cached_property
    def _best_in_game(self) -> np.ndarray:
        return self._smallest_highest(np.ones(self.facts.d_y))

    @cached_property
    def _fairest(self) -> np.ndarray:
        return self._smallest_highest(self._to_means)

    @cached_property
    def _best_on_average(self) -> np.ndarray:
        y = self.shares[None]  # Σ_h p_h L_h is the mean loss over all rows
        return minimise(
            lambda u, active: self._against(u, y[active]), self._centre, self._curvature(y), tolerance=1e-6
        ).x

    def _smallest_highest(self, scale: np.ndarray) -> np.ndarray:
        """Compute (1, 2d) the model with the smallest max_h s_h L_h for scales s (G,).

        Kelley's cutting planes on the concave φ(y) = min_u Σ_h y_h s_h L_h(u) ≤ Σ_h y_h s_h L_h(uₖ).

        By convexity the multipliers μ of the planes give a model Σ μₖ uₖ that is at least as good as the planes'
        maximum, so the smallest maximum lies between the best certified φ and that model's maximum.
        """
        y, points = np.full((1, len(scale)), 1 / len(scale)), self._centre
        losses = self.group_losses(points) * scale
        lower = -np.inf
        best, best_losses = points, losses
        for _ in range(300):
            if best_losses.max() - lower <= _OPTIMUM_TOLERANCE:
                break
            certified = minimise(
                lambda u, active, y=y * scale: self._against(u, y[active]),  # type: ignore[misc]
                points[-1:],
                self._curvature(y * scale),
                tolerance=_OPTIMUM_TOLERANCE / 4,
            )
            lower = max(lower, float(certified.lower[0]))
            points, losses = (
                np.vstack([points, certified.x]),
                np.vstack([losses, self.group_losses(certified.x) * scale]),
            )
            # The planes' maximum is the value of a game between planes and groups.
            planes = equilibrium(losses)
            y, mixed = planes.y[None], planes.x[None] @ points
            mixed_losses = self.group_losses(mixed) * scale
            if mixed_losses.max() < best_losses.max():
                best, best_losses = mixed, mixed_losses
        return best

    @property
    def _centre(self) -> np.ndarray:
        """(1, 2d) the best model for equally weighted groups: a start that does not depend on earlier calls."""
        self.prepare()
        assert self._start is not None
        return self._start

    def prepare(self) -> None:
        if self._start is None:
            x, y = self.facts.uniform(1)
            seconds = self.facts.seconds
            certified = minimise(lambda u, active: self._against(u, y[active]), x, self._curvature(y), seconds=seconds)
            self._start = certified.x

    def _against(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F(·, y) (R,) and its gradient (R, 2d)."""
        gradient, losses = self._gradients(x, y, None)
        return (losses * y).sum(axis=1), gradient

    def _curvature(self, y: np.ndarray) -> np.ndarray:
        """Return (R,) a bound on the Hessian of F(·, y): that of u ↦ h(r (u₊ - u₋)) is 2r² times that of h."""
        return 2 * self._radius**2 * (1.0 if self._squared else 0.25) * (y @ self._largest_eigenvalues)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """H (G, d, d), c (G, d), k (G,) with L_h(w) = ½ wᵀH_h w - c_hᵀw + k_h for the squared loss."""
        group_count, d = self.facts.d_y, self._features.shape[1]
        hessians, linear, constant = np.empty((group_count, d, d)), np.empty((group_count, d)), np.empty(group_count)
        for group in range(group_count):
            in_group = self._groups == group
            features, labels = self._features[in_group], self._labels[in_group]
            scale = (self._row_weights[in_group][:1].sum()) / self.facts.n  # 0 for an empty group
            hessians[group] = scale * (features.T @ features)
            linear[group] = scale * (labels @ features)
            constant[group] = 0.5 * scale * (labels @ labels)
        return hessians, linear, constant

    @cached_property
    def _largest_eigenvalues(self) -> np.ndarray:
        """λ_max(H_h) (G,)."""
        return np.linalg.eigvalsh(self._moments[0])[:, -1]

    def _losses_and_slopes(
        self, w: np.ndarray, y: np.ndarray | None, rows: slice | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute L_h(w) (R, G) and Σ_h y_h ∇L_h(w) (R, d) over the given rows; the latter is empty without y."""
        if self._squared and rows is None:
            hessians, linear, constant = self._moments
            products = np.matmul(w, hessians)  # (G, R, d); the matrices are symmetric
            losses = 0.5 * np.einsum("grd,rd->rg", products, w) - w @ linear.T + constant
            slopes = np.zeros((len(w), 0)) if y is None else np.einsum("grd,rg->rd", products, y) - y @ linear
            return losses, slopes
        losses = np.zeros((len(w), self.facts.d_y))
        slopes = np.zeros((len(w), 0 if y is None else w.shape[1]))
        count = 0
        for block in self._blocks(len(w), rows):
            features, labels, weights = self._features[block], self._labels[block], self._row_weights[block]
            groups = self._groups[block]
            row_losses, row_slopes = self._row_losses(w @ features.T, labels)
            membership = np.zeros((len(labels), self.facts.d_y))
            membership[np.arange(len(labels)), groups] = weights
            losses += row_losses @ membership
            if y is not None:
                slopes += (row_slopes * (y @ membership.T)) @ features
            count += len(labels)
        return losses / count, slopes / count

    def _row_losses(self, predictions: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return loss and its derivative by the prediction, each (R, b), of rows with labels (b,)."""
        if self._squared:
            residuals = predictions - labels
            return 0.5 * residuals**2, residuals
        # |margin| ≤ r: the exponential can neither overflow nor lose digits.
        exponentials = np.exp(-labels * predictions)
        return np.log1p(exponentials), -labels * (exponentials / (1 + exponentials))

    def _blocks(self, replicates: int, rows: slice | None) -> Iterator[slice]:
        start, stop, _ = (rows or slice(None)).indices(self.facts.n)
        size = max(1, BLOCK // replicates)
        for begin in range(start, stop, size):
            yield slice(begin, min(begin + size, stop))


class LossMatrix(GameSpecification):
    """The choice among d strategies of the one with the smallest loss in its worst group. Every row has a loss of every
    strategy.

    The payoff matrix of a row of group g with losses ℓ ∈ [0, 1]^d is ℓ e_gᵀ / p_g. Losses are the features of the data
    set, their declared ranges scaled to [0, 1]; labels are not used.
    """

    kind: ClassVar[str] = "problems.group_loss.loss_matrix"
    title: ClassVar[str] = "Strategies against groups"
    data: GroupedSpecification = GroupedLosses()

    @model_validator(mode="after")
    def _something_to_choose(self) -> Self:
        data = self.data.facts()
        if data.d == 1 and len(data.groups) == 1:
            raise ValueError("with one strategy and one group there is nothing to choose; declare more of either")
        return self

    @property
    def good(self) -> tuple[slice | None, str]:
        return (slice(0, 3), "the three specialists") if isinstance(self.data, GroupedLosses) else super().good

    def facts(self) -> GameFacts:
        """Return the facts: all entries lie in [0, 1/p₋] and have one sign, so gradients change by no more than
        that."""
        data = self.data.facts()
        weight = 1 / data.smallest_share
        oscillation_x, oscillation_y = weight if data.d > 1 else 0.0, weight if len(data.groups) > 1 else 0.0
        return GameFacts(
            n=data.n,
            released=tuple(Laplace(epsilon) for epsilon in data.shares_costs),
            from_data=self.from_data,
            d=data.d + len(data.groups),
            d_x=data.d,
            d_y=len(data.groups),
            lipschitz=weight,
            oscillation_x=oscillation_x,
            oscillation_y=oscillation_y,
            smoothness=weight,
            payoff_bound=weight,
            largest_gap=1.0,
            gap_change=2 * weight,  # payoffs have one sign
            right_shares=True,
            products=2 * data.d * len(data.groups),
            table_bytes=16 * data.n * data.d,
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of a strategy, which is a column of losses; or of a group."""
        data = self.data.facts()
        return data.groups[index] if player == "y" else data.names[index]

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LossMatrixGame":
        return LossMatrixGame(self, self.data.load(tables))


class LossMatrixGame(GroupedGame):
    """A game of strategies against groups with its data; see `LossMatrix`."""

    def __init__(self, specification: LossMatrix, data: GroupedDataset) -> None:
        super().__init__(data)
        self.facts = specification.facts()

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        matrix = self._matrix if rows is None else self._mean_payoffs(rows)
        return y @ matrix.T, x @ matrix

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        gap = bilinear_gap(self._gradients(output["x"], output["y"], None))
        return {"duality_gap": gap, "worst_group_loss": self.highest_mean(output["x"])}

    def group_losses(self, x: np.ndarray) -> np.ndarray:
        return x @ self._matrix

    def best_in_game(self) -> np.ndarray:
        return self.equilibrium().x[None]

    def fairest(self) -> np.ndarray:
        return equilibrium(self._matrix * self._to_means).x[None]

    def best_on_average(self) -> np.ndarray:
        return np.eye(self.facts.d_x)[[int(np.argmin(self._matrix @ self.shares))]]

    def payoffs(self, replicates: int) -> Query:
        """Return the mean loss of every strategy in every group, for R replicates; (R, d, G), a read-only view of one
        matrix.

        Its sensitivity is that of any matrix with entries within ±payoff_bound, which methods plan for.
        """
        facts = self.facts
        sensitivity = 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n
        return Query(np.broadcast_to(self._matrix, (replicates, *self._matrix.shape)), sensitivity, "l2")

    def equilibrium(self) -> Equilibrium:
        """Compute value and optimal mixtures on the data; not private."""
        return equilibrium(self._matrix)

    @cached_property
    def _matrix(self) -> np.ndarray:
        return self._mean_payoffs(slice(None))

    def _mean_payoffs(self, rows: slice) -> np.ndarray:
        features, groups = self._features[rows], self._groups[rows]
        membership = np.zeros((len(groups), self.facts.d_y))
        membership[np.arange(len(groups)), groups] = self._row_weights[rows]
        # Losses are (1 + feature) / 2; rounding in the sum stays far below one row's share.
        return (membership.sum(axis=0) + features.T @ membership) / (2 * len(groups))
