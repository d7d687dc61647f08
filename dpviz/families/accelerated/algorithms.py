"""Gradient methods with momentum under differential privacy (Kuru, Birbil, Gürbüzbalaban, Yıldırım 2022).

Each class is one update rule. The noise, the split of the budget and the number of steps are options of all of them:
"DP-NAG-opt" is `Nesterov` with the optimal schedule and the number of steps that the error bound recommends.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, quadratic, theory
from dpviz.numbers import short
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, of_each
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Norm
from dpviz.problems.base import Metric, SmoothFacts, SmoothProblem, check_facts
from dpviz.specification import choice, number, numbers

NOISES = {"laplace": "Laplace", "gaussian": "Gaussian"}
NOISE = "Laplace noise gives pure ε-DP. Gaussian noise needs (ε, δ), ρ or μ; smaller in high dimension."
LESS = "Choose a smaller step size c or less momentum."


class GradientMethod(Algorithm[SmoothProblem, SmoothFacts]):
    """What the family shares: noisy gradients of a smooth, strongly convex objective, released one per step."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("distance", "Distance travelled ‖x_t - x_0‖", released=True, better=""),
        Metric("noisy_gradient_norm", "Noisy gradient norm ‖g̃_t‖", released=True, scale="log"),
    )
    dynamics: ClassVar[quadratic.Kind]  # which recursion its error follows on quadratics
    iterations: int = number(
        100, 1, 10_000, label="Steps", symbol="T", scale="log", help="Noisy gradients released. More steps, more noise."
    )
    relative_step: float = number(
        1.0, 0.05, 1.0, label="Step size", symbol="c", unit="1/L", scale="log", help="Step size α = c/L."
    )
    batch_fraction: float = number(
        1.0,
        0.0001,
        1.0,
        label="Batch",
        symbol="m/n",
        scale="log",
        help="Share of the rows in each gradient, drawn afresh without replacement. 1 = all rows, no sampling.",
    )
    noise: Literal["laplace", "gaussian"] = choice("laplace", NOISES, label="Noise", help=NOISE)
    schedule: Literal["uniform", "optimal", "envelope", "own"] = choice(
        "uniform",
        label="Noise schedule",
        help="How the budget is spread over the steps. Optimal: more noise early, less noise late.",
        options={
            "uniform": "Uniform",
            "optimal": "Optimal (bound)",
            "envelope": "Optimal (quadratics)",
            "own": "Your own",
        },
    )
    knots: theory.Knots = numbers(
        theory.EVEN,
        label="Your own schedule",
        help="Powers of ten of the noise, from the first step to the last, straight in between. Only the shape "
        "counts: the noise is scaled until the guarantee holds.",
    )
    horizon: Literal["fixed", "bound"] = choice(
        "fixed",
        label="Number of steps",
        help="Run T steps, or as many (at most T) as minimise the error bound.",
        options={"fixed": "Exactly T", "bound": "Best T by the bound"},
    )

    @property
    def look(self) -> tuple[int, int]:
        """Schedule and horizon make another method, with another name; a schedule of one's own does not."""
        bound = self.horizon == "bound"
        if self.schedule == "uniform":
            return self.hue, 2 if bound else 0
        return self.hue, 1 if bound or self.schedule == "optimal" else 0

    @property
    def is_drawn(self) -> bool:
        """Whether its schedule is one's own."""
        return self.schedule == "own"

    def released_settings(self) -> str:
        """Without the numbers of a schedule of one's own, where another one is used."""
        return self.settings_without(() if self.is_drawn else ("knots",))

    # ------------------------------------------------------------------------------------------------- the update rule

    @abstractmethod
    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        """The noise-free method: step sizes, momentum, stages, restarts."""

    def query_point(self, x: np.ndarray, before: np.ndarray, momentum: float) -> np.ndarray:
        """Where the gradient is asked for, from the last two iterates; (R, d). As written here: at the last one."""
        return x

    def update(
        self, at: np.ndarray, before: np.ndarray, gradient: np.ndarray, step: float, momentum: float
    ) -> np.ndarray:
        """The next iterate, from the noisy gradient at `at`; (R, d). As written here: a step against it."""
        return at - step * gradient

    def recursion(self, facts: SmoothFacts, steps: theory.Steps) -> theory.Recursion | None:
        """The error bound that holds for this method, or None where none is known."""
        return theory.nesterov_recursion(steps, facts.strong_convexity, facts.smoothness, facts.lyapunov)

    # ------------------------------------------------------------------------------------------------------- plan, run

    @property
    def norm(self) -> Norm:
        """The norm in which the noise needs the sensitivity."""
        return "l1" if self.noise == "laplace" else "l2"

    def batch_size(self, facts: SmoothFacts) -> int:
        """m: rows in each gradient."""
        return max(1, min(facts.n, round(self.batch_fraction * facts.n)))

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return self.plan_with(facts, budget, planning.split_budget(self, facts, budget))

    def plan_with(self, facts: SmoothFacts, budget: Budget, events: tuple[Event, ...]) -> Plan:
        """The plan that spends the budget on these events, one per step."""
        steps, m = self.steps(facts, len(events)), self.batch_size(facts)
        sensitivity = facts.gradient_sensitivity(self.norm, m)
        scales = of_each(events, lambda event: noise_scale(event, sensitivity))
        return Plan.fixed(
            facts,
            budget,
            events,
            batch_size=np.full(len(events), m),
            noise={"gradient": np.array(scales)},
            resolved={"iterations": len(events), "smoothness": facts.smoothness, "batch_size": m},
            notes=self._notes(facts, steps),
            step_size=steps.step_size,
            momentum=steps.momentum,
            restart=steps.restart,
            stage=steps.stage,
        )

    def _notes(self, facts: SmoothFacts, steps: theory.Steps) -> tuple[str, ...]:
        if steps.step_size.max() * facts.smoothness <= 1 + 1e-9:
            return ()
        return (
            f"Step size α = {short(steps.step_size.max())} is above 1/L: stable on quadratics, but no error bound.",
        )

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        start = problem.facts.starting_point(mechanisms.replicates)
        x = before = start
        diverged = np.zeros(len(x), dtype=bool)
        nothing = np.full(len(x), np.nan)
        yield Snapshot(0, {"x": x}, {"distance": np.zeros(len(x)), "noisy_gradient_norm": nothing})
        schedule = (plan.schedule[name] for name in ("step_size", "momentum", "restart"))
        for t, (event, step, momentum, restart) in enumerate(zip(plan.events, *schedule, strict=True), 1):
            if restart:
                before = x
            at = self.query_point(x, before, momentum)
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(at, batch, self.norm)
            noisy = batch.laplace(query) if self.noise == "laplace" else batch.gaussian(query)
            x, before = self.update(at, before, noisy + problem.regulariser_gradient(at), step, momentum), x
            diverged |= ~(np.abs(x).max(axis=1) < DIVERGED)
            if diverged.any():
                x = np.where(diverged[:, None], before, x)  # frozen where it was, and marked
            yield Snapshot(
                t,
                {"x": x},
                {"distance": _norms(x - start), "noisy_gradient_norm": _norms(noisy)},
                status=divergence_status(diverged),
            )

    # -------------------------------------------------------------------------------------------- what the theory says

    def error_bound(self, plan: Plan) -> np.ndarray | None:
        """(T+1,) upper bound on E F(x_t) - F* after each step of the plan, or None where none is known.

        Theorem 4.1 / 4.3 of the paper with the constants of THEORY.md, 5.1 (V₀ instead of E₀, errata E3-E4).
        """
        facts = SmoothFacts.of(plan.facts)
        recursion = self.recursion(facts, self.steps(facts, plan.iterations))
        return None if recursion is None else theory.bound(recursion, planning.half_variance(self, facts, plan))

    def expected_on_quadratic(self, plan: Plan, eigenvalues: np.ndarray | None = None) -> np.ndarray:
        """(T+1,) exact E F(x_t) - F* on a quadratic with this spectrum (d,), started at the plan's starting point.

        Without `eigenvalues`, the spectrum that the plan's facts state. Replaces Theorem 3.5 (errata E10).
        """
        facts = SmoothFacts.of(plan.facts)
        spectrum = np.array(facts.eigenvalues) if eigenvalues is None else eigenvalues
        start, steps = np.full(len(spectrum), facts.start), self.steps(facts, plan.iterations)
        return quadratic.expected_gap(steps, self.dynamics, spectrum, start, self.noise_variance(plan)).total

    def noise_variance(self, plan: Plan) -> np.ndarray:
        """(T,) variance of the noise in every coordinate of each step's gradient."""
        return (2.0 if self.noise == "laplace" else 1.0) * plan.noise["gradient"] ** 2


def _norms(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum(axis=1))


class GradientDescent(GradientMethod):
    """DP-GD, on batches DP-SGD: x_t = x_{t-1} - α g̃_t(x_{t-1})."""

    kind: ClassVar[str] = "families.accelerated.gradient_descent"
    title: ClassVar[str] = "DP-GD"
    dynamics: ClassVar[quadratic.Kind] = "gradient_descent"

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        return theory.gradient_descent(iterations, self.relative_step / facts.smoothness)

    def recursion(self, facts: SmoothFacts, steps: theory.Steps) -> theory.Recursion:
        return theory.gradient_descent_recursion(steps, facts.strong_convexity, facts.smoothness, facts.initial_gap)


class HeavyBall(GradientMethod):
    """DP-HB, gradient descent with momentum (Polyak 1964): x_t = x_{t-1} - α g̃_t(x_{t-1}) + β (x_{t-1} - x_{t-2})."""

    kind: ClassVar[str] = "families.accelerated.heavy_ball"
    title: ClassVar[str] = "DP-HB"
    if_diverged: ClassVar[str] = LESS
    hue: ClassVar[int] = 1
    dynamics: ClassVar[quadratic.Kind] = "heavy_ball"
    momentum_rule: Literal["nesterov", "optimal", "polyak", "own"] = choice(
        "nesterov",
        label="Momentum rule",
        help="q = √(μα). Polyak's pair also sets the step size, above 1/L.",
        options={
            "nesterov": "(1-q)/(1+q), the paper's",
            "optimal": "(1-q)², best for this α",
            "polyak": "Polyak's pair (α, β)",
            "own": "My own β",
        },
    )
    momentum: float = number(0.8, 0.0, 0.99, label="Momentum", symbol="β", help="Used with the rule 'My own β'.")

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        step = self.relative_step / facts.smoothness
        if self.momentum_rule == "polyak":
            return theory.heavy_ball(iterations, *theory.polyak_pair(facts.strong_convexity, facts.smoothness))
        if self.momentum_rule == "own":
            return theory.heavy_ball(iterations, step, self.momentum)
        rule = theory.nesterov_momentum if self.momentum_rule == "nesterov" else theory.heavy_ball_momentum
        return theory.heavy_ball(iterations, step, float(rule(step, facts.strong_convexity)))

    def update(
        self, at: np.ndarray, before: np.ndarray, gradient: np.ndarray, step: float, momentum: float
    ) -> np.ndarray:
        return at - step * gradient + momentum * (at - before)

    def recursion(self, facts: SmoothFacts, steps: theory.Steps) -> None:
        return None  # Proposition 3.4 needs an LMI that has no solution at the paper's own settings; see certificate.py


class Nesterov(GradientMethod):
    """DP-NAG (Nesterov 2004): w_t = x_{t-1} + β (x_{t-1} - x_{t-2}), x_t = w_t - α g̃_t(w_t), β = (1-q)/(1+q)."""

    kind: ClassVar[str] = "families.accelerated.nesterov"
    title: ClassVar[str] = "DP-NAG"
    if_diverged: ClassVar[str] = LESS
    hue: ClassVar[int] = 2
    dynamics: ClassVar[quadratic.Kind] = "nesterov"

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        return theory.nesterov(iterations, self.relative_step / facts.smoothness, facts.strong_convexity)

    def query_point(self, x: np.ndarray, before: np.ndarray, momentum: float) -> np.ndarray:
        return x + momentum * (x - before)


class MultistageNesterov(Nesterov):
    """DP-MASG: Nesterov's method in stages of shrinking step size, restarted at each (Aybat et al. 2019)."""

    kind: ClassVar[str] = "families.accelerated.multistage_nesterov"
    title: ClassVar[str] = "DP-MASG"
    hue: ClassVar[int] = 3
    stage_lengths: Literal["corrected", "paper"] = choice(
        "corrected",
        label="Stage lengths",
        help="The paper's lengths ignore the step size c; at c = 0.1 the method then stalls.",
        options={"corrected": "Depend on c", "paper": "As in the paper"},
    )

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        return theory.multistage(
            iterations, self.relative_step, facts.strong_convexity, facts.smoothness, self.stage_lengths
        )


# Influences below this share of the largest are raised to it: every step needs some budget, and these hardly any.


# --------------------------------------------------------- a schedule of one's own next to the even and the optimal one

_SMALLEST = 1e-30


class Compared(NamedTuple):
    """The predicted error after the last step, and the (T,) noise of the optimal schedule over that of the even one.

    exact : whether the errors are exact expectations, of a quadratic, or bounds. proven : whether no other schedule
    has a smaller one: where the cost of a step is a sum of ε_t (Laplace noise, pure ε) or of ρ_t (Gaussian, all rows).
    """

    yours: float
    even: float
    optimal: float
    noise: np.ndarray
    exact: bool
    proven: bool


def compare(method: GradientMethod, plan: Plan) -> Compared | None:
    """What the plan of a schedule of one's own is worth; None where there is neither an exact error nor a bound."""
    facts = SmoothFacts.of(plan.facts)
    weights = optimal_shares(method, plan)
    if weights is None:
        return None
    m = method.batch_size(facts)
    prior = facts.released
    even, optimal = (
        method.plan_with(
            facts,
            plan.budget,
            calibration.calibrated_events(method.noise, plan.budget, shares, m, facts.n, prior=prior),
        )
        for shares in (np.ones(plan.iterations), weights)
    )
    proven = plan.budget.pure if method.noise == "laplace" else m == facts.n
    return Compared(
        _error(method, plan),
        _error(method, even),
        _error(method, optimal),
        optimal.noise["gradient"] / even.noise["gradient"],
        bool(facts.eigenvalues),
        proven,
    )


def optimal_shares(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """(T,) shares of the budget that make the error after the last step smallest: exactly so on a quadratic (error =
    Σ_t A_t variance_t, so ε_t ∝ A_t^(1/3), ρ_t ∝ A_t^(1/2)), else the bound on it. None where there is no bound.
    """
    facts = SmoothFacts.of(plan.facts)
    steps = method.steps(facts, plan.iterations)
    recursion: theory.Recursion | None
    if facts.eigenvalues:
        influence = quadratic.adjoint_weights(steps, method.dynamics, facts.eigenvalues)
        log_weight = np.log(np.maximum(influence, _SMALLEST * influence.max()))
        recursion = theory.Recursion(facts.initial_gap, np.zeros(plan.iterations), log_weight)
    else:
        recursion = method.recursion(facts, steps)
    return None if recursion is None else planning.best_split(method, facts, plan.budget, recursion)


def _error(method: GradientMethod, plan: Plan) -> float:
    facts = SmoothFacts.of(plan.facts)
    errors = method.expected_on_quadratic(plan) if facts.eigenvalues else method.error_bound(plan)
    assert errors is not None
    return float(errors[-1])
