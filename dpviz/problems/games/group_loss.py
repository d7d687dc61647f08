"""Games that minimise the worst group's loss: one player chooses a model in an ℓ1 ball, or one of several strategies;
the other player chooses weights of the groups. R is the number of replicates (simulated runs), G that of groups."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import compute_in_slices
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.groups import (
    GroupedBundled,
    GroupedDataset,
    GroupedLosses,
    GroupedSigns,
    GroupedSpecification,
    GroupedUpload,
)
from dpviz.privacy.releases import Query
from dpviz.problems import base
from dpviz.problems.base import Metric, Plane, evaluate_in_slices
from dpviz.problems.games.games import (
    DEAR_GAP,
    GameFacts,
    GameSpecification,
    Pair,
    Player,
    ball_gradient,
    ball_vertex,
    minimise_on_simplex,
    to_ball,
)
from dpviz.problems.games.grouped import WORST_GROUP, GroupedGame, Rates, rates
from dpviz.problems.games.matrix_games import Equilibrium, bilinear_gap, equilibrium
from dpviz.problems.model import LinearScore, unscaled
from dpviz.specification import choice, number

# Passes over the data work on blocks of about this many elements (rows × replicates), which stay in the cache.
BLOCK = 16_000
_OPTIMUM_TOLERANCE = 1e-4  # to which the smallest worst group loss is computed
_ROW = 45  # multiplications that take as long as the loss and slope of a row, given its prediction


class GroupLoss(GameSpecification):
    """The settings of the game F(u, y) = Σ_h y_h L_h(w) of a model w = r (u₊ - u₋) against G groups: u = (u₊, u₋) are
    weights on the 2d vertices of the ℓ1 ball of radius r, and y weights on the groups h.

    L_h(w) = (1/n) Σ_{i in group h} loss(w; aᵢ, bᵢ) / p_h with declared shares p_h of the groups. It is the group's mean
    loss if its share is right, else that times the ratio of actual to declared share. The loss of a row with features a
    and label b is ½ (⟨a, w⟩ - b)² or ln(1 + exp(-b ⟨a, w⟩)).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.GroupLoss(), dpviz.GaussianMirrorDescent(gradient_rounds=4), mu=1).run()
    <Trace of Gaussian mirror descent: 20 runs, 4 iterations>
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
        1.0,
        0.5,
        5.0,
        label="Radius",
        symbol="r",
        help="The model's weights have ‖w‖₁ ≤ r. Larger = more noise.",
        limits=(1e-6, 1e6),
    )

    def _plane(self) -> Plane | None:
        data = self.data.facts()
        return base.ball_plane(self.radius, data.d, [f"Weight of {name}" for name in data.names[:2]])

    def facts(self) -> GameFacts:
        """Return the facts. They hold for any row with features and label in [-1, 1], whose loss has at most the weight
        1/p₋ with the smallest share p₋ of a group."""
        data, r = self.data.facts(), self.radius
        weight = 1 / data.smallest_share
        # Largest loss of a row, and largest first, second and third derivative by its prediction ⟨a, w⟩ in [-r, r].
        if self.loss == "squared":
            loss, slope, curvature, third = (r + 1) ** 2 / 2, r + 1, 1.0, 0.0
        else:
            loss, slope, curvature = float(np.logaddexp(0.0, r)), 1.0, 0.25
            third = 1 / (6 * math.sqrt(3))  # max |σ''|
        # As w = r (u₊ - u₋), derivatives by u have r times the size of those by w, and both signs; ∇ᵧ are losses, ≥ 0.
        lipschitz_x, lipschitz_y = weight * r * slope, weight * loss
        sums = len(data.groups) * data.d**2  # numbers in sums over all rows, computed before the run for squared loss
        return GameFacts(
            n=data.n,
            released=self.released,
            from_data=self.from_data,
            d=2 * data.d + len(data.groups),
            d_x=2 * data.d,
            d_y=len(data.groups),
            lipschitz=max(lipschitz_x, lipschitz_y),
            oscillation_x=2 * lipschitz_x,
            oscillation_y=lipschitz_y if len(data.groups) > 1 else 0.0,
            smoothness=max(weight * r**2 * curvature, lipschitz_x),  # ∂²f/∂u∂y has entries of at most lipschitz_x
            smoothness_x=weight * r**2 * curvature,
            smoothness_y=0.0,
            # Third derivatives: three times by u; and twice by u and once by y, which is not 0 for the squared loss.
            second_smoothness=weight * max(r**3 * third, r**2 * curvature),
            largest_gap=loss,  # with right shares F is a mean of the rows' losses, which are between 0 and this
            right_shares=True,
            products=sums if self.loss == "squared" else data.n * (2.0 * data.d + _ROW),
            table_bytes=16.0 * data.n * data.d + 32 * sums,  # at 8 bytes a number, the table twice and the sums 4 times
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of a strategy: of x a feature with the sign of its weight, of y a group."""
        data = self.data.facts()
        return data.groups[index] if player == "y" else ball_vertex(data.names, index)

    def linear_score(self, x: np.ndarray) -> LinearScore | None:
        """Return the prediction in the table's own units, from weights x (2d,); None without a table or its classes."""
        data = self.data
        if not isinstance(data, GroupedUpload | GroupedBundled):  # generated data
            return None
        if isinstance(data, GroupedUpload) and data.target is None:  # a table without classes
            return None
        low, high = np.array(data.facts().bounds).T  # ranges that the game scales to [-1, 1]
        model = unscaled(to_ball(x, self.radius), centres=(low + high) / 2, widths=(high - low) / 2)
        return LinearScore(*model, proba=self.loss == "logistic")

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "GroupLossGame":
        return GroupLossGame(self, self.data.load(tables))


class GroupLossGame(GroupedGame):
    """A game of a model against groups with its data; see `GroupLoss`.

    For the squared loss, values on the whole table follow from sums over its rows, which are computed once.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (DEAR_GAP, WORST_GROUP)

    def __init__(self, specification: GroupLoss, data: GroupedDataset) -> None:
        super().__init__(data)
        self.facts = specification.facts()
        self._radius = specification.radius
        self._is_squared = specification.loss == "squared"
        self._prepared_start: np.ndarray | None = None

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the models w (R, d) for weights x (R, 2d) on the vertices of the ball."""
        return to_ball(x, self._radius)

    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute the losses L_h (R, G) at x (R, 2d); diagnostics."""
        losses, _ = self._losses_and_slopes(self.weights(x), y=None, rows=None)
        return losses

    def rates(self, x: np.ndarray) -> Rates | None:
        """Compute the rates of the models x (R, 2d), which predict +1 where ⟨a, w⟩ > 0; None unless labels are ±1."""
        return self._rates(self._features @ w > 0 for w in self.weights(x))

    def majority(self) -> Rates | None:
        """Compute the rates of always predicting the more frequent label; None unless labels are ±1."""
        is_positive = self._labels.sum() > 0
        return self._rates([np.full(len(self._labels), is_positive)])

    def _rates(self, predictions: Iterable[np.ndarray]) -> Rates | None:
        """Compute the rates of predictions (n,), True for +1, of one or more models; None unless labels are ±1."""
        if not (np.abs(self._labels) == 1).all():
            return None
        by_model = [rates(of_model, self._labels, self._groups, len(self.groups)) for of_model in predictions]
        return Rates(*np.stack(by_model, axis=1))  # from (3, G + 1) of each model: three arrays (R, G + 1)

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        """Compute ∇ᵤF (R, 2d) and ∇ᵧF (R, G), which are the losses L_h, over a block of rows, or all for None."""
        losses, slopes = self._losses_and_slopes(self.weights(x), y, rows)
        return ball_gradient(slopes, self._radius), losses

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the metrics (R,). The duality gap is expensive: min over u of F(u, y) takes a minimisation."""
        seconds = self.facts.seconds
        cheap = evaluate_in_slices(self._evaluate, output, seconds)
        if not expensive:
            return cheap
        x, y = output["x"], output["y"]
        worst_loss = compute_in_slices(self.group_losses, seconds, x).max(axis=1)  # max over v of F(x, v)
        start = np.repeat(self._start, len(y), axis=0)
        # `active` are the replicates whose minimum over u is not yet known well enough.
        certified = minimise_on_simplex(
            lambda u, active: self._value_and_gradient(u, y[active]), start, self._curvature(y), seconds=seconds
        )
        # A proven lower bound on that minimum makes this an upper bound on the gap, which is never negative.
        return {"duality_gap": np.maximum(worst_loss - certified.lower, 0.0)} | cheap

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"worst_group_loss": self.highest_mean_loss(output["x"])}

    @cached_property
    def best_in_game(self) -> np.ndarray:
        """The model (1, 2d) with the smallest max_h L_h."""
        return self._minimise_maximum(np.ones(self.facts.d_y))

    @cached_property
    def fairest(self) -> np.ndarray:
        """The model (1, 2d) for which the largest of the groups' mean losses is smallest."""
        return self._minimise_maximum(self._mean_factors)

    @cached_property
    def best_on_average(self) -> np.ndarray:
        """The model (1, 2d) with the smallest mean loss over all rows."""
        y = self.shares[None]  # Σ_h p_h L_h is the mean loss over all rows
        certified = minimise_on_simplex(
            lambda u, active: self._value_and_gradient(u, y[active]), self._start, self._curvature(y), tolerance=1e-6
        )
        return certified.x

    def _minimise_maximum(self, scale: np.ndarray) -> np.ndarray:
        """Compute the model (1, 2d) with the smallest maximum max_h s_h L_h over the groups, for scales s (G,).

        That smallest maximum is the largest value of the concave function φ(y) = min_u Σ_h y_h s_h L_h(u). Kelley's
        cutting planes maximise it: for each model uₖ so far, the plane Σ_h y_h s_h L_h(uₖ) is above φ. The next weights
        y maximise the lowest plane, and the next model is the best one for these y.

        The dual weights μ of the planes give a mixture Σ μₖ uₖ of the models. By convexity its maximum is at most the
        maximum of the lowest plane. So the smallest maximum is between the largest proven φ(y) and the maximum of the
        best mixture; when they are close, that mixture is returned.
        """
        y, models = np.full((1, len(scale)), 1 / len(scale)), self._start
        losses = self.group_losses(models) * scale
        lower = -np.inf
        best, best_losses = models, losses
        for _ in range(300):  # a limit, so that the search ends even if rounding keeps both bounds apart
            if best_losses.max() - lower <= _OPTIMUM_TOLERANCE:
                break
            weights = y * scale  # y_h s_h; the default of the function binds those of this round
            certified = minimise_on_simplex(
                lambda u, active, weights=weights: self._value_and_gradient(u, weights[active]),  # type: ignore[misc]
                models[-1:],
                self._curvature(weights),
                tolerance=_OPTIMUM_TOLERANCE / 4,  # so that φ(y) is known better than the loop has to know the maximum
            )
            lower = max(lower, float(certified.lower[0]))
            models = np.vstack([models, certified.x])
            losses = np.vstack([losses, self.group_losses(certified.x) * scale])
            # The weights y with the largest lowest plane, and the dual weights μ of the planes, are the equilibrium of
            # the game of models against groups with these losses.
            planes = equilibrium(losses)
            y, mixture = planes.y[None], planes.x[None] @ models  # planes.x is μ
            mixture_losses = self.group_losses(mixture) * scale
            if mixture_losses.max() < best_losses.max():
                best, best_losses = mixture, mixture_losses
        return best

    @property
    def _start(self) -> np.ndarray:
        """The best model (1, 2d) for equally weighted groups. Minimisations start there, so that their results do not
        depend on earlier ones."""
        self.prepare()
        assert self._prepared_start is not None
        return self._prepared_start

    def prepare(self) -> None:
        """Compute the best model for equally weighted groups, at which minimisations start."""
        if self._prepared_start is None:
            x, y = self.facts.uniform(1)
            seconds = self.facts.seconds
            certified = minimise_on_simplex(
                lambda u, active: self._value_and_gradient(u, y[active]), x, self._curvature(y), seconds=seconds
            )
            self._prepared_start = certified.x

    def _value_and_gradient(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F(x, y) (R,) and its gradient (R, 2d) with respect to x, at x (R, 2d), for weights y (R, G) of the
        groups."""
        gradient, losses = self._gradients(x, y, None)
        return (losses * y).sum(axis=1), gradient

    def _curvature(self, y: np.ndarray) -> np.ndarray:
        """Return a bound (R,) on the eigenvalues of the Hessian of F with respect to x, for y (R, G).

        The largest eigenvalue of the Hessian of u ↦ f(r (u₊ - u₋)) is at most 2r² times that of the Hessian of f. The
        Hessian of L_h is H_h (`_moments`) for squared loss, and at most ¼ H_h for logistic loss.
        """
        factor = 1.0 if self._is_squared else 0.25
        return 2 * self._radius**2 * factor * (y @ self._largest_eigenvalues)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """H (G, d, d), c (G, d) and k (G,) such that with the squared loss L_h(w) = ½ wᵀH_h w - c_hᵀw + k_h.

        With the logistic loss only H is of use: its Hessian is at most ¼ H_h.
        """
        group_count, d = self.facts.d_y, self._features.shape[1]
        hessians, linear, constant = np.empty((group_count, d, d)), np.empty((group_count, d)), np.empty(group_count)
        for group in range(group_count):
            in_group = self._groups == group
            features, labels = self._features[in_group], self._labels[in_group]
            # All rows of a group have the same weight; the sum over its first row is 0 for an empty group.
            scale = self._row_weights[in_group][:1].sum() / self.facts.n
            hessians[group] = scale * (features.T @ features)
            linear[group] = scale * (labels @ features)
            constant[group] = 0.5 * scale * (labels @ labels)
        return hessians, linear, constant

    @cached_property
    def _largest_eigenvalues(self) -> np.ndarray:
        """The largest eigenvalue of H_h for each group h, (G,)."""
        return np.linalg.eigvalsh(self._moments[0])[:, -1]

    def _losses_and_slopes(
        self, w: np.ndarray, y: np.ndarray | None, rows: slice | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute at models w (R, d) the losses L_h(w) (R, G) of the groups, and Σ_h y_h ∇L_h(w) (R, d) for weights y
        (R, G), over a block of rows, or over all for None. Without y the second array is empty.
        """
        if self._is_squared and rows is None:
            hessians, linear, constant = self._moments
            products = np.matmul(w, hessians)  # H_h w (G, R, d), as the matrices are symmetric
            losses = 0.5 * np.einsum("grd,rd->rg", products, w) - w @ linear.T + constant
            slopes = np.zeros((len(w), 0)) if y is None else np.einsum("grd,rg->rd", products, y) - y @ linear
            return losses, slopes
        losses = np.zeros((len(w), self.facts.d_y))
        slopes = np.zeros((len(w), 0 if y is None else w.shape[1]))
        count = 0  # of the rows so far
        for block in self._blocks(len(w), rows):
            features, labels = self._features[block], self._labels[block]
            predictions = w @ features.T  # (R, b); the slopes are the derivatives of the losses by these
            if self._is_squared:
                residuals = predictions - labels
                row_losses, row_slopes = 0.5 * residuals**2, residuals
            else:  # |margin| ≤ r: the exponential can neither overflow nor lose digits
                exponentials = np.exp(-labels * predictions)
                row_losses, row_slopes = np.log1p(exponentials), -labels * (exponentials / (1 + exponentials))
            membership = self._membership(block)  # (b, G) each row's weight in its group, else 0
            losses += row_losses @ membership
            if y is not None:
                slopes += (row_slopes * (y @ membership.T)) @ features
            count += len(labels)
        return losses / count, slopes / count

    def _blocks(self, replicates: int, rows: slice | None) -> Iterator[slice]:
        """Yield the rows of a block, or all for None, in slices of about BLOCK / R rows."""
        start, stop, _ = (rows or slice(None)).indices(self.facts.n)
        size = max(1, BLOCK // replicates)
        for begin in range(start, stop, size):
            yield slice(begin, min(begin + size, stop))


class LossMatrix(GameSpecification):
    """The settings of a game that chooses among d strategies, or their mixtures, for the smallest loss in the worst
    group.

    Every row has a loss ℓ_j in [0, 1] of every strategy j. The losses are the features of the data set, with their
    declared ranges scaled to [0, 1]; labels are not used. A row of group g with the declared share p_g has the payoff
    matrix (d, G) with ℓ/p_g in column g and 0 in the others.
    """

    kind: ClassVar[str] = "problems.group_loss.loss_matrix"
    title: ClassVar[str] = "Strategies against groups"
    data: GroupedSpecification = GroupedLosses()

    @model_validator(mode="after")
    def _something_to_choose(self) -> Self:
        """Raise ValueError if there is one strategy and one group."""
        data = self.data.facts()
        if data.d == 1 and len(data.groups) == 1:
            raise ValueError("with one strategy and one group there is nothing to choose; declare more of either")
        return self

    @property
    def best_strategies(self) -> tuple[slice | None, str]:
        """Indices and name of the three strategies that are best in drawn data; None and a name for other data."""
        if not isinstance(self.data, GroupedLosses):
            return super().best_strategies
        return slice(0, 3), "the three specialists"

    def facts(self) -> GameFacts:
        """Return the facts. The entries of a row's payoff matrix are in [0, 1/p₋] with the smallest share p₋.

        So the coordinates of one row's gradient differ by 1/p₋ at most (its oscillation). The gap of the game is 1 at
        most, as with right shares the payoffs of all rows together are means of losses in [0, 1].
        """
        data = self.data.facts()
        weight = 1 / data.smallest_share
        oscillation_x = weight if data.d > 1 else 0.0
        oscillation_y = weight if len(data.groups) > 1 else 0.0
        return GameFacts(
            n=data.n,
            released=self.released,
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
            gap_change=2 * weight,  # as payoffs have one sign, each player's best answer changes by `weight` at most
            right_shares=True,
            products=2 * data.d * len(data.groups),
            table_bytes=16 * data.n * data.d,
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of a strategy: of x a column of losses, of y a group."""
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
        """Compute M y (R, d) and Mᵀx (R, G) with the mean payoffs M (d, G) of a block of rows, or of all for None."""
        matrix = self._matrix if rows is None else self._mean_payoffs(rows)
        return y @ matrix.T, x @ matrix

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        gap = bilinear_gap(self._gradients(output["x"], output["y"], None))
        return {"duality_gap": gap, "worst_group_loss": self.highest_mean_loss(output["x"])}

    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute the losses Mᵀx (R, G) of the groups in the game, for mixtures x (R, d) of strategies."""
        return x @ self._matrix

    @property
    def best_in_game(self) -> np.ndarray:
        return self.equilibrium().x[None]

    @property
    def fairest(self) -> np.ndarray:
        return equilibrium(self._matrix * self._mean_factors).x[None]

    @property
    def best_on_average(self) -> np.ndarray:
        return np.eye(self.facts.d_x)[[int(np.argmin(self._matrix @ self.shares))]]

    def payoffs(self, replicates: int) -> Query:
        """Return the query of the game's payoff matrix (R, d, G), the same for all R replicates, in ℓ2: of every
        strategy's loss in every group. Its value is a read-only view of one matrix.

        The sensitivity is that of any matrix with entries within ±payoff_bound, because methods are planned for it;
        with entries of one sign half would do.
        """
        facts = self.facts
        sensitivity = 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n
        return Query(np.broadcast_to(self._matrix, (replicates, *self._matrix.shape)), sensitivity, "l2")

    def equilibrium(self) -> Equilibrium:
        """Compute the game's value and optimal strategies on the data; not private."""
        return equilibrium(self._matrix)

    @cached_property
    def _matrix(self) -> np.ndarray:
        """The mean (d, G) of the payoff matrices of all rows."""
        return self._mean_payoffs(slice(None))

    def _mean_payoffs(self, rows: slice) -> np.ndarray:
        """Compute the mean (d, G) of the payoff matrices of a block of rows."""
        features, membership = self._features[rows], self._membership(rows)
        # A row's loss is (1 + feature)/2, of features in [-1, 1]. Rounding is far below what one row can change.
        return (membership.sum(axis=0) + features.T @ membership) / (2 * len(membership))
