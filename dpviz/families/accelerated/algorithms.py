"""Gradient methods with momentum under differential privacy (Kuru, Birbil, Gürbüzbalaban, Yıldırım 2022).

Each class is one update rule. The noise, the split of the budget and the number of steps are options of all of them:
"DP-NAG-opt" is `Nesterov` with the optimal schedule and the number of steps that the error bound recommends.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, quadratic, theory
from dpviz.numbers import short
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import of_each
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Norm
from dpviz.problems.base import Metric, SmoothFacts, SmoothProblem, check_facts
from dpviz.specification import choice, is_ours, number, numbers

NOISES = {"laplace": "Laplace", "gaussian": "Gaussian"}
NOISE = "Laplace noise gives pure ε-DP. Gaussian noise needs (ε, δ), ρ or μ; smaller in high dimension."
LESS = "Choose a smaller step size c or less momentum."


class GradientMethod(Algorithm[SmoothProblem, SmoothFacts]):
    """Base of the family: releases one noisy gradient of a smooth, strongly convex objective per step.

    A subclass says where a step takes the gradient, how it moves, and which error bound holds.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("distance", "Distance travelled ‖x_t - x_0‖", released=True, better=""),
        Metric("noisy_gradient_norm", "Noisy gradient norm ‖g̃_t‖", released=True, scale="log"),
    )
    dynamics: ClassVar[quadratic.Kind]  # which recursion the error follows on quadratics
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
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines in charts, as numbers.

        The optimal schedule and a T chosen by the bound change the dash, as they make a method of another name:
        "DP-NAG-opt". Schedules for quadratics or drawn by hand do not.
        """
        is_by_bound = self.horizon == "bound"
        if self.schedule == "uniform":
            return self.hue, 2 if is_by_bound else 0
        return self.hue, 1 if is_by_bound or self.schedule == "optimal" else 0

    @property
    def is_drawn(self) -> bool:
        """True if the noise schedule is drawn by hand, by `knots`."""
        return self.schedule == "own"

    def released_settings(self) -> str:
        """Return as JSON the settings that determine the noise: `knots` do so only if the schedule is drawn by hand."""
        return self.settings_without(() if self.is_drawn else ("knots",))

    # ------------------------------------------------------------------------------------------------- the update rule

    @abstractmethod
    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        """Return the method without its noise, for T = `iterations` steps: step sizes, momentum, stages, restarts."""

    def query_point(self, x: np.ndarray, previous: np.ndarray, momentum: float) -> np.ndarray:
        """Return (R, d) the points at which the next gradient is released, given the last iterates x and the previous
        ones, both (R, d). This base method takes it at x; Nesterov's takes it ahead of x."""
        return x

    def update(
        self, point: np.ndarray, previous: np.ndarray, gradient: np.ndarray, step: float, momentum: float
    ) -> np.ndarray:
        """Return (R, d) the next iterates: one step of size `step` from `point` against its noisy gradient.

        point : (R, d) the result of `query_point`. previous : (R, d) the iterates before the last, for methods whose
            momentum enters here.
        """
        return point - step * gradient

    def bound_factors(self, facts: SmoothFacts, steps: theory.Steps) -> theory.BoundFactors | None:
        """Return the factors of this method's error bound, which need only the noise of each step to become the bound
        for all numbers of steps at once; None where no bound is known. By default they are those of Nesterov's bound.
        """
        return theory.nesterov_factors(steps, facts.strong_convexity, facts.smoothness, facts.lyapunov)

    # ------------------------------------------------------------------------------------------------------- plan, run

    @property
    def norm(self) -> Norm:
        """Norm in which the noise needs the sensitivity."""
        return "l1" if self.noise == "laplace" else "l2"

    def batch_size(self, facts: SmoothFacts) -> int:
        """Return m, the number of rows in each gradient: at least 1, at most n."""
        return max(1, min(facts.n, round(self.batch_fraction * facts.n)))

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: its steps, and the events that spend the budget on them."""
        iterations = self.iterations
        if self.horizon == "bound" and budget.private:  # without privacy more steps are always better
            _horizons, _bounds, iterations = planning.bound_by_horizon(self, facts, budget)
        return self.plan_with(facts, budget, planning.shares(self, facts, budget, iterations))

    def plan_with(self, facts: SmoothFacts, budget: Budget, shares: np.ndarray) -> Plan:
        """Return the plan of T steps that spend the whole budget in proportion to `shares` (T,), which are those of ε
        for Laplace noise, of ρ for Gaussian noise."""
        iterations, m = len(shares), self.batch_size(facts)
        # `prior`: releases charged before the run.
        events = calibration.calibrated_events(self.noise, budget, shares, m=m, n=facts.n, prior=facts.released)
        sensitivity = facts.gradient_sensitivity(self.norm, m)
        # Equal steps share one event object; its scale is computed once.
        scales = of_each(events, lambda event: noise_scale(event, sensitivity))
        steps, notes = self.steps(facts, iterations), []
        largest_step = steps.step_size.max()
        if largest_step * facts.smoothness > 1 + 1e-9:  # above 1 by more than rounding
            notes.append(f"Step size α = {short(largest_step)} is above 1/L: stable on quadratics, but no error bound.")
        if self.horizon == "bound" and iterations >= self.iterations and budget.private:
            notes.append(
                f"The error bound is smallest at the most steps allowed, T = {iterations:,}: more may be better."
            )
        plan = Plan.fixed(  # arguments that it does not name become `plan.schedule`: from `step_size` on
            facts,
            budget,
            events,
            batch_size=np.full(iterations, m),
            noise={"gradient": np.array(scales)},
            resolved={"iterations": iterations, "smoothness": facts.smoothness, "batch_size": m},
            notes=tuple(notes),
            step_size=steps.step_size,
            momentum=steps.momentum,
            restart=steps.restart,
            stage=steps.stage,
        )
        if not is_ours(type(self)):  # a user's update rule, for which the inherited bound need not hold
            return plan
        return replace(plan, notes=(*plan.notes, *planning.noise_note(self, facts, plan, steps)))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates of the plan; yield a snapshot of their iterates at the start and after every step."""
        check_facts(problem, plan.facts)
        x = previous = start = problem.facts.starting_point(mechanisms.replicates)  # (R, d)
        diverged = np.zeros(len(x), dtype=bool)
        no_gradient = np.full(len(x), np.nan)
        yield Snapshot(0, {"x": x}, {"distance": np.zeros(len(x)), "noisy_gradient_norm": no_gradient})
        schedule = (plan.schedule[name] for name in ("step_size", "momentum", "restart"))
        for t, (event, step, momentum, restart) in enumerate(zip(plan.events, *schedule, strict=True), 1):
            if restart:
                previous = x  # without a difference of iterates there is no momentum
            point = self.query_point(x, previous, momentum)
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(point, batch, self.norm)
            noisy = batch.laplace(query) if self.noise == "laplace" else batch.gaussian(query)
            gradient = noisy + problem.regulariser_gradient(point)  # the regulariser reads no data: it needs no noise
            x, previous = self.update(point, previous, gradient, step, momentum), x
            diverged |= ~(np.abs(x).max(axis=1) < DIVERGED)  # true for nan, too
            if diverged.any():
                x = np.where(diverged[:, None], previous, x)  # frozen at its last finite iterate, and marked
            yield Snapshot(
                t,
                {"x": x},
                {"distance": _norms(x - start), "noisy_gradient_norm": _norms(gradient)},
                status=divergence_status(diverged),
            )

    # ------------------------------------------------------------------------------------------------------ the theory

    def error_bound(self, plan: Plan) -> np.ndarray | None:
        """Return (T+1,) an upper bound on E F(x_t) - F* after t = 0..T steps of the plan, or None where none is known.

        It is Theorem 4.1 or 4.3 of the paper with the constants of THEORY.md, 5.1: the Lyapunov value V₀ in place of
        the initial gap E₀ (errata E3-E4).
        """
        facts = SmoothFacts.of(plan.facts)
        factors = self.bound_factors(facts, self.steps(facts, plan.iterations))
        if factors is None:
            return None
        return theory.bound(factors, planning.half_variance(self, facts, plan))

    def expected_on_quadratic(self, plan: Plan) -> np.ndarray:
        """Return (T+1,) the exact E F(x_t) - F* after t = 0..T steps of a plan whose problem is a quadratic, with the
        eigenvalues and the start that its facts state. It replaces the paper's Theorem 3.5 (erratum E10)."""
        facts = SmoothFacts.of(plan.facts)
        steps, variance = self.steps(facts, plan.iterations), self.noise_variance(plan)
        return quadratic.expected_gap(steps, self.dynamics, facts.eigenvalues, facts.start, variance).total

    def noise_variance(self, plan: Plan) -> np.ndarray:
        """Return (T,) the variance of the noise in a coordinate of each step's gradient: 2 b² for Laplace noise of
        scale b, σ² for Gaussian noise."""
        return (2.0 if self.noise == "laplace" else 1.0) * plan.noise["gradient"] ** 2


def _norms(x: np.ndarray) -> np.ndarray:
    """Return (R,) the L2 norm of each row of x (R, d)."""
    return np.sqrt((x * x).sum(axis=1))


class GradientDescent(GradientMethod):
    """DP-GD, called DP-SGD on batches: x_t = x_{t-1} - α g̃_t(x_{t-1}), with step size α and noisy gradient g̃_t.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.Quadratic(), dpviz.GradientDescent(iterations=5), epsilon=1).run()
    <Trace of DP-GD: 20 runs, 5 iterations>
    """

    kind: ClassVar[str] = "families.accelerated.gradient_descent"
    title: ClassVar[str] = "DP-GD"
    dynamics: ClassVar[quadratic.Kind] = "gradient_descent"

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        return theory.gradient_descent(iterations, self.relative_step / facts.smoothness)

    def bound_factors(self, facts: SmoothFacts, steps: theory.Steps) -> theory.BoundFactors:
        return theory.gradient_descent_factors(steps, facts.strong_convexity, facts.smoothness, facts.initial_gap)


class HeavyBall(GradientMethod):
    """DP-HB, heavy ball: gradient descent with momentum β (Polyak 1964).

    x_t = x_{t-1} - α g̃_t(x_{t-1}) + β (x_{t-1} - x_{t-2}), with step size α and noisy gradient g̃_t.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.Quadratic(), dpviz.HeavyBall(iterations=5, momentum=0.5), epsilon=1).run()
    <Trace of DP-HB: 20 runs, 5 iterations>
    """

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
    momentum: float = number(
        0.8, 0.0, 0.99, label="Momentum", symbol="β", help="Used with the rule 'My own β'.", limits=(0.0, 0.999999)
    )

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        step = self.relative_step / facts.smoothness
        if self.momentum_rule == "polyak":
            return theory.heavy_ball(iterations, *theory.polyak_pair(facts.strong_convexity, facts.smoothness))
        if self.momentum_rule == "own":
            return theory.heavy_ball(iterations, step, self.momentum)
        rule = theory.nesterov_momentum if self.momentum_rule == "nesterov" else theory.heavy_ball_momentum
        return theory.heavy_ball(iterations, step, float(rule(step, facts.strong_convexity)))

    def update(
        self, point: np.ndarray, previous: np.ndarray, gradient: np.ndarray, step: float, momentum: float
    ) -> np.ndarray:
        return point - step * gradient + momentum * (point - previous)  # `point` is the last iterate here

    def bound_factors(self, facts: SmoothFacts, steps: theory.Steps) -> None:
        return None  # Proposition 3.4 needs a certificate; the paper's own settings have none: see certificate.py


class Nesterov(GradientMethod):
    """DP-NAG, Nesterov's accelerated gradient method (Nesterov 2004).

    w_t = x_{t-1} + β (x_{t-1} - x_{t-2}) and x_t = w_t - α g̃_t(w_t), with step size α, noisy gradient g̃_t, and
    momentum β = (1-q)/(1+q), q = √(μα), for strong convexity μ.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(iterations=5), epsilon=1).run()
    <Trace of DP-NAG: 20 runs, 5 iterations>
    """

    kind: ClassVar[str] = "families.accelerated.nesterov"
    title: ClassVar[str] = "DP-NAG"
    if_diverged: ClassVar[str] = LESS
    hue: ClassVar[int] = 2
    dynamics: ClassVar[quadratic.Kind] = "nesterov"

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        return theory.nesterov(iterations, self.relative_step / facts.smoothness, facts.strong_convexity)

    def query_point(self, x: np.ndarray, previous: np.ndarray, momentum: float) -> np.ndarray:
        return x + momentum * (x - previous)


class MultistageNesterov(Nesterov):
    """DP-MASG: Nesterov's method in stages of shrinking step size, with its momentum reset at the start of each (Aybat
    et al. 2019).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.Quadratic(), dpviz.MultistageNesterov(iterations=5), epsilon=1).run()
    <Trace of DP-MASG: 20 runs, 5 iterations>
    """

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


# --------------------------------------------------------- a schedule of one's own next to the even and the optimal one

# The influence of a step is the factor with which its noise variance enters the last error. Influences below this share
# of the largest are raised to it: a step without any budget has infinite noise. The share of ε, the cube root, is then
# at least 1e-10 of the largest, which takes next to nothing from the other steps.
_SMALLEST = 1e-30


class ScheduleComparison(NamedTuple):
    """Predicted error after the last step under three noise schedules that spend the same budget.

    yours : under the schedule drawn by hand. even : with the same share for each step. optimal : with the shares that
        minimise this error.
    noise : (T,) noise scale of the optimal schedule over that of the even one.
    exact : True if the errors are exact expectations, on a quadratic; False if they are bounds.
    proven : True if no other schedule has a smaller error than `optimal`, which holds where the cost of the run is
        a sum of ε_t (Laplace noise, pure ε) or of ρ_t (Gaussian noise, all rows).
    """

    yours: float
    even: float
    optimal: float
    noise: np.ndarray
    exact: bool
    proven: bool


def compare(method: GradientMethod, plan: Plan) -> ScheduleComparison | None:
    """Compare the error of a plan whose schedule is drawn by hand with that of the even and of the optimal schedule.

    Return None where there is neither an exact error nor a bound.
    """
    facts = SmoothFacts.of(plan.facts)
    best_shares = optimal_shares(method, plan)
    if best_shares is None:
        return None
    even = method.plan_with(facts, plan.budget, np.ones(plan.iterations))
    optimal = method.plan_with(facts, plan.budget, best_shares)
    # Proven optimal only where the cost is a sum.
    proven = plan.budget.pure if method.noise == "laplace" else method.batch_size(facts) == facts.n
    return ScheduleComparison(
        yours=_error(method, plan),
        even=_error(method, even),
        optimal=_error(method, optimal),
        noise=optimal.noise["gradient"] / even.noise["gradient"],
        exact=bool(facts.eigenvalues),
        proven=proven,
    )


def optimal_shares(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """Return (T,) the shares of the budget, up to a common factor, that minimise the error after the last step; None
    where no error bound is known.

    On a quadratic it is the exact error: noise adds Σ_t A_t v_t, with the noise variance v_t and the influence A_t of
    step t. Its minimum has ε_t ∝ A_t^(1/3) for Laplace noise and ρ_t ∝ A_t^(1/2) for Gaussian noise. On other problems
    it is the bound on the error.
    """
    facts = SmoothFacts.of(plan.facts)
    steps = method.steps(facts, plan.iterations)
    factors: theory.BoundFactors | None
    if facts.eigenvalues:
        influence = quadratic.adjoint_weights(steps, method.dynamics, facts.eigenvalues)
        log_weight = np.log(np.maximum(influence, _SMALLEST * influence.max()))
        # Written as a bound, so that the same split minimises it; only the weights matter for that.
        factors = theory.BoundFactors(facts.initial_gap, np.zeros(plan.iterations), log_weight)
    else:
        factors = method.bound_factors(facts, steps)
    return None if factors is None else planning.best_split(method, facts, plan.budget, factors)


def _error(method: GradientMethod, plan: Plan) -> float:
    """Return the error E F(x_T) - F* after the last step of the plan: exact on a quadratic, whose facts state its
    eigenvalues, else the bound on it."""
    facts = SmoothFacts.of(plan.facts)
    errors = method.expected_on_quadratic(plan) if facts.eigenvalues else method.error_bound(plan)
    assert errors is not None  # `compare` has returned before where there is no bound
    return float(errors[-1])
