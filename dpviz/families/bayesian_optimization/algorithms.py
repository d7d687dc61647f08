"""Methods that tune settings θ on the losses of n users of validation data, with privacy for each user.

Two methods descend along noisy means of the users' clipped gradients. DP-GIBO (Sopa, Marusic, Avella-Medina, Cunningham
2025) estimates these gradients from a few evaluations nearby; DP-GD has the exact ones. Two others search the whole
box: random search, and Bayesian optimisation with an upper confidence bound. An evaluation of a setting is one training
of a model; it gives the losses of all users.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import at_checkpoints, checkpoint
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization import planning, posterior
from dpviz.families.bayesian_optimization.batches import BatchRule, Placing
from dpviz.families.bayesian_optimization.posterior import MIN_NOISE, Matern, solve_triangular
from dpviz.numbers import short
from dpviz.privacy import calibration, releases
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import ExpMech, Laplace
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.tuning.tuning import Evaluations, TuningFacts, TuningProblem, points_at_once
from dpviz.specification import choice, number, switch

TRAININGS = Metric("trainings", "Trainings so far", released=True, axis=True, better="lower", headline=3)
SECONDS = Metric("training_time", "Time of the trainings, declared [s]", released=True, axis=True, better="lower")
NOISY_NORM = Metric("noisy_gradient_norm", "Norm of the noisy gradient ‖g̃_t‖", released=True, scale="log", better="")
BATCH_SIZE = Metric("batch_size", "Evaluations in a step b_t", released=True, better="")
UNEXPLAINED = Metric("unexplained", "Unexplained share of the gradient's variance α_t/P", released=True, scale="log")
UNCERTAINTY = Metric(
    "gradient_uncertainty", "Largest standard deviation of the gradient, per unit of a loss", released=True, scale="log"
)
RULES = {"adagrad": "AdaGrad: each coordinate at its own pace", "sgd": "Plain steps"}
BY_NAME = ("share", "noise_factor")  # settings whose value follows from a method's label, unless it is set
UNCLIPPED = DIVERGED  # a clip that no gradient reaches; not infinite, because sensitivities must be finite


class Descent(Algorithm[TuningProblem, TuningFacts]):
    """Base of the descent methods: θ ← Π(θ - η g̃), where g̃ is the noisy mean of the users' gradients, each clipped to
    length B, η the step size and Π the projection to the box. A subclass says where the gradients come from."""

    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS, NOISY_NORM)
    if_diverged: ClassVar[str] = "The noise is beyond all bounds. Use a larger budget or a smaller clip."
    iterations: int = number(30, 1, 200, label="Steps", symbol="T", scale="log", help="Noisy gradients released.")
    clip: float = number(
        0.5,
        0.01,
        10.0,
        label="Clip",
        symbol="B",
        scale="log",
        help="Longest gradient of one user that counts. Noise grows with it; what is longer is shortened.",
    )
    step_size: float = number(0.4, 0.01, 2.0, label="Step size", symbol="η", scale="log", help="Of every step.")
    rule: Literal["adagrad", "sgd"] = choice(
        "adagrad",
        RULES,
        label="Steps are",
        help="AdaGrad's first step moves every coordinate by η, whatever the gradient.",
    )
    clip_always: bool = switch(
        True,
        label="Clip without privacy, too",
        help="Only privacy needs a clip. On, the gap to a run without privacy is the price of noise alone; off, it is "
        "that of clip and noise, and GIBO is as published.",
    )
    share: float = number(
        1.0,
        0.01,
        1.0,
        label="Share of the budget",
        unit="μ",
        scale="log",
        help="How much of the budget's μ all steps together spend: less is more privacy, and more noise.",
    )

    def released_settings(self) -> str:
        """Return the settings that the releases depend on, as JSON, from which the noise is seeded; without share and
        noise factor where they are 1, so that a run keeps the noise that it had before these settings existed."""
        # Only DP-GIBO has a noise factor; for the other methods it counts as 1.
        return self.settings_without([name for name in BY_NAME if getattr(self, name, 1.0) == 1.0])

    @abstractmethod
    def _trainings(self, facts: TuningFacts) -> float:
        """Estimate the number of trainings of a replicate."""

    @abstractmethod
    def _user_gradients(self, problem: TuningProblem, replicates: int) -> "UserGradients":
        """Return the source of the users' gradients in a run."""

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        """Return the plan with equal Gaussian noise in all T steps."""
        ones = np.ones(self.iterations)  # all steps get equal parts of the budget
        batch = facts.n  # every step uses all users
        # `prior` are releases before the run that the budget covers, too.
        rho = calibration.calibrate_gaussian(budget, ones, m=batch, n=facts.n, prior=facts.released)
        events = calibration.gaussian_events(self.share**2 * rho, m=batch, n=facts.n)  # the share is of μ, and ρ = μ²/2
        scales = [noise_scale(event, facts.gradient_sensitivity(self.clip)) for event in events]
        notes, noise_length = self._notes(facts), scales[0] * math.sqrt(facts.d)  # all scales are equal
        if noise_length > self.clip / 2:
            noise_note = (
                f"The noise is about {short(noise_length)} long in every step, and no gradient is longer than the "
                f"clip, {short(self.clip)}: most steps go nowhere. Take fewer steps, more users or a larger budget."
            )
            notes = (noise_note, *notes)
        return Plan.fixed(
            facts,
            budget,
            events,
            noise={"gradient": np.array(scales)},
            resolved=self._resolved(facts),
            notes=notes,
            step_size=self.step_size * ones,
            clip=(self.clip if budget.private or self.clip_always else UNCLIPPED) * ones,
        )

    def _resolved(self, facts: TuningFacts) -> Mapping[str, float]:
        """Return the numbers that follow from settings and facts, by name, for the plan."""
        return {"expected_trainings": self._trainings(facts)}

    def _notes(self, facts: TuningFacts) -> tuple[str, ...]:
        """Return further warnings for the plan."""
        return ()

    def has_internal(self, facts: TuningFacts) -> bool:
        return True  # every snapshot has `UserGradients.diagnostics`

    def run(self, problem: TuningProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates, and yield their iterates after each step."""
        check_facts(problem, plan.facts)
        walk = Walk(problem.facts, mechanisms, self.rule)
        user_gradients = self._user_gradients(problem, mechanisms.replicates)
        steps = zip(plan.events, plan.schedule["step_size"].tolist(), plan.schedule["clip"].tolist(), strict=True)
        released = {NOISY_NORM.name: walk.norm, **user_gradients.released}
        yield Snapshot(0, {"x": walk.x}, released, internal=user_gradients.diagnostics(walk.x))
        for t, (event, step_size, clip) in enumerate(steps, 1):
            query = user_gradients.mean_gradient(walk.x, clip)
            internal = user_gradients.diagnostics(walk.x, query)  # at the iterate before the step
            walk.step(mechanisms.gaussian(query, event), step_size)
            released = {NOISY_NORM.name: walk.norm, **user_gradients.released}
            yield Snapshot(t, {"x": walk.x}, released, internal=internal, status=divergence_status(walk.diverged))


class Walk:
    """The iterates of all replicates in a descent.

    x : (R, d) iterates, in the box. diverged : (R,) True for replicates that have diverged. norm : (R,) lengths of the
    last noisy gradients; NaN before the first step, 0 for those that have diverged.
    """

    def __init__(self, facts: TuningFacts, mechanisms: Mechanisms, rule: Literal["adagrad", "sgd"]) -> None:
        self.low, self.high = facts.box
        self._rule = rule
        self.x = facts.starting_points(mechanisms.common)  # generators that are the same for all methods
        self.norm, self.diverged = np.full(len(self.x), np.nan), np.zeros(len(self.x), dtype=bool)
        self._squares = np.zeros_like(self.x)  # AdaGrad: sums of squared gradients

    def step(self, gradient: np.ndarray, step_size: float) -> None:
        """Step against the noisy gradients (R, d) and project to the box; replicates that diverge stay in place."""
        self.diverged = self.diverged | ~(np.abs(gradient).max(axis=1) < DIVERGED)  # "not below" is true of NaN, too
        gradient = np.where(self.diverged[:, None], 0.0, gradient)
        self.norm = np.linalg.norm(gradient, axis=1)
        if self._rule == "adagrad":
            self._squares = self._squares + gradient**2
            gradient = gradient / (np.sqrt(self._squares) + 1e-8)  # 1e-8: no division by 0 where all were 0
        self.x = np.clip(self.x - step_size * gradient, self.low, self.high)


def training_series(evaluations: Evaluations) -> dict[str, np.ndarray]:
    """Return, by name of the metric, (R,) the trainings so far and (R,) their declared time in seconds."""
    count = evaluations.count.astype(float)
    return {TRAININGS.name: count, SECONDS.name: count * evaluations.facts.training_seconds}


class UserGradients:
    """Gradients of the users' losses at the replicates' iterates: here the exact ones, for problems that know them."""

    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations

    @property
    def released(self) -> dict[str, np.ndarray]:
        """Values (R,) of the metrics that may be released after a step, by name: they are functions of the iterates,
        the box and the kernel only."""
        return training_series(self._evaluations)

    def diagnostics(self, x: np.ndarray, query: releases.Query | None = None) -> dict[str, np.ndarray]:
        """Return the values of a step that may not be released, by name: the iterates x (R, d), the mean of the clipped
        gradients there, and (R,) the share of the users whose gradient was clipped.

        query : the mean; None before the first step.
        """
        gradient = np.zeros_like(x) if query is None else query.value
        # A copy, as the next query changes the array.
        return {"x": x, "gradient": gradient, "clipped": self._evaluations.clipped_share.copy()}

    def mean_gradient(self, x: np.ndarray, clip: float) -> releases.Query:
        """Return the mean of the users' gradients at x (R, d), each clipped to the length `clip`."""
        return self._evaluations.exact_gradient(x, clip)


class EstimatedGradients(UserGradients):
    """Estimates of the users' gradients from evaluations near the iterates, by Gaussian processes.

    A replicate evaluates the same points for all users and gives them the same weights in the estimates. Neither
    depends on a loss, so that only the mean gradient needs noise.
    """

    def __init__(self, evaluations: Evaluations, batches: BatchRule) -> None:
        super().__init__(evaluations)
        replicates, d = len(evaluations.count), len(batches.low)  # `count` has the trainings of each replicate
        self._batches = batches
        # Evaluated points of each replicate. All begin with one object, which is replaced and never changed.
        self._evaluated_points = [posterior.EvaluatedPoints(batches.surrogate, np.empty((0, d)))] * replicates
        # After the last step: (R,) size of its batch, and the uncertainty that the posterior leaves.
        self._series = {
            name: np.full(replicates, np.nan) for name in (BATCH_SIZE.name, UNEXPLAINED.name, UNCERTAINTY.name)
        }

    @property
    def released(self) -> dict[str, np.ndarray]:
        """Trainings and their time, and the size of the last batch with the uncertainty about the gradient after it,
        both NaN before the first step."""
        return {**super().released, **self._series}

    def mean_gradient(self, x: np.ndarray, clip: float) -> releases.Query:
        """Evaluate the next batch of points near x (R, d) and return the mean of the users' estimated gradients at x,
        each clipped to the length `clip`."""
        series = {name: np.empty(len(x)) for name in self._series}
        points, weights = [], []
        for r, theta in enumerate(x):
            checkpoint()
            trial = self._batches.next_batch(self._evaluated_points[r], theta)
            self._evaluated_points[r] = trial.evaluated.latest(self._batches.window)
            # `latest` returns the same object if it drops no old point; then the trial is the posterior already.
            local = trial if self._evaluated_points[r] is trial.evaluated else self._evaluated_points[r].at(theta)
            points.append(trial.points)
            weights.append(local.weights)
            series[BATCH_SIZE.name][r] = len(trial.points)
            series[UNEXPLAINED.name][r] = local.unexplained
            series[UNCERTAINTY.name][r] = local.largest_deviation
        self._evaluations.add(points)  # keeps the losses at as many points as `latest`, so that weights fit losses
        self._series = series
        return self._evaluations.gradient(weights, clip)


class Gibo(Descent):
    """DP-GIBO: each user's gradient is estimated by a Gaussian process from the user's losses at points nearby.

    A step evaluates further points until at most a share ω of the gradient's variance is unexplained by the process.
    Without a budget the method is GIBO.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.LengthScales(training_rows=20), dpviz.Gibo(iterations=2), mu=1, replicates=2).run()
    <Trace of DP-GIBO: 2 runs, 2 iterations>
    """

    kind: ClassVar[str] = "families.bayesian_optimization.gibo"
    title: ClassVar[str] = "DP-GIBO"
    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS, BATCH_SIZE, UNEXPLAINED, UNCERTAINTY, NOISY_NORM)
    bias_level: float = number(
        0.02,
        0.001,
        0.95,
        label="Bias level",
        symbol="ω",
        scale="log",
        help="Share of the gradient's variance that a step may leave unexplained. Smaller = more trainings, less bias.",
    )
    batch_size: int | None = number(
        None,
        1,
        250,
        label="Evaluations per step",
        symbol="b",
        scale="log",
        help="Empty: as many as the bias level asks for.",
    )
    noise_factor: float = number(
        1.0,
        0.001,
        100.0,
        label="Noise assumed",
        unit="of the declared",
        scale="log",
        help="The process takes the noise of every evaluation for so many times its standard deviation: 1 is right.",
    )
    surrogate: posterior.Surrogate = posterior.Surrogate()
    placing: Placing = Placing()

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of its lines, as indices; settings that change the label change these, too."""
        if self.share < 1:  # a part of the budget
            return 2, 3
        if self.noise_factor < 1:  # it assumes far too little noise, or too little
            return (2, 2) if self.noise_factor <= 0.03 else (2, 1)
        if self.noise_factor > 1:
            return 3, 2
        return self.hue, int(self.batch_size is not None)

    def batches(self, facts: TuningFacts) -> BatchRule:
        """Return the rule that chooses the points of every step, for a problem with these facts.

        It assumes the noise of the evaluations that is set, else the declared one, times `noise_factor`.
        """
        variance, minimum = self.surrogate.relative_noise, 1e-10  # the field's own limits are 1e-10 and 100
        if variance is None:  # the problem's own, which may be 0: the posterior needs some
            variance, minimum = facts.observation_sd**2, MIN_NOISE
        noise = min(100.0, max(minimum, variance * self.noise_factor**2))
        surrogate = self.surrogate.replaced(relative_noise=noise)
        return BatchRule(surrogate, self.placing, *facts.box, self.bias_level, self.batch_size)

    def _trainings(self, facts: TuningFacts) -> float:
        return planning.expected_trainings(self.batches(facts), self.iterations)

    def _resolved(self, facts: TuningFacts) -> Mapping[str, float]:
        batches = self.batches(facts)
        return {
            "first_batch": batches.first_size(),
            "window": batches.window,
            "relative_noise": batches.surrogate.noise,
            **super()._resolved(facts),
        }

    def _notes(self, facts: TuningFacts) -> tuple[str, ...]:
        notes, batches = [], self.batches(facts)
        surrogate = batches.surrogate
        if surrogate.noise < facts.observation_sd**2:
            notes.append(
                f"The process assumes noise of variance {short(surrogate.noise)} and observations have "
                f"{short(facts.observation_sd**2)}, if a user's loss has variance 1. Assuming too little costs most: "
                "points come too near, and noise is taken for slopes."
            )
        # The size of batches follows from the level, if it is neither set nor that of central differences. The formula
        # does not hold for quadratic functions, which are known after few evaluations.
        has_level = batches.size is None and batches.placing.design != "central" and surrogate.kernel != "quadratic"
        if has_level and batches.first_size_by_formula() is None:
            notes.append(
                f"No batch of {short(batches.max_size)} points leaves so little unexplained: every step will take "
                "that many. Raise the bias level, or allow repeats."
            )
        return tuple(notes)

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes of a run: losses, points and factors that every replicate stores, and the temporary arrays
        of one replicate at a time."""
        n, d, batches = plan.facts.n, plan.facts.d, self.batches(TuningFacts.of(plan.facts))
        sizes = planning.expected_batches(batches, self.iterations)
        window, largest = min(float(sizes.sum()), batches.window), float(sizes.max())
        stored = window * (n + d + window)
        new_losses = largest * n  # of all replicates at once, before they are joined with the stored ones
        # Joined losses; about six square matrices, such as the factor; and slopes between all points and the new ones.
        temporary = (window + largest) * (n + 6 * (window + largest) + d * largest)
        return replicates * (problem.replicate + 8.0 * (stored + new_losses)) + 8.0 * temporary  # 8 bytes a number

    def _user_gradients(self, problem: TuningProblem, replicates: int) -> UserGradients:
        batches = self.batches(problem.facts)
        return EstimatedGradients(problem.evaluations(replicates, window=batches.window), batches)


class GradientDescent(Descent):
    """DP-GD: descent with the exact gradients of the users' losses, for problems that know them. A step takes one
    training."""

    kind: ClassVar[str] = "families.bayesian_optimization.gradient_descent"
    title: ClassVar[str] = "DP-GD: with exact gradients"
    hue: ClassVar[int] = 3

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        if not facts.has_gradients:
            raise UserError(
                "The gradients of this problem are not known. Choose a method that needs losses only.",
                title="Algorithm and problem do not fit",
            )
        return super().plan(facts, budget)

    def _trainings(self, facts: TuningFacts) -> float:
        return float(self.iterations)

    def _user_gradients(self, problem: TuningProblem, replicates: int) -> UserGradients:
        return UserGradients(problem.evaluations(replicates))


NOISY_LOSS = Metric("noisy_loss", "Noisy loss of the last evaluation", released=True, better="")


class RandomSearch(Algorithm[TuningProblem, TuningFacts]):
    """Random search: N settings are drawn from the box, and the exponential mechanism selects one of them, by their
    mean losses over the users.

    The privacy cost does not depend on N. Losses are clipped to [0, M], so one user moves each mean by at most M/n, up
    or down: the range of the change is 2M/n.

    >>> import dpviz
    >>> problem = dpviz.LengthScales(training_rows=20)
    >>> dpviz.Experiment(problem, dpviz.RandomSearch(trainings=3), epsilon=1, replicates=2).run()
    <Trace of Private random search: 2 runs, 1 iterations>
    """

    kind: ClassVar[str] = "families.bayesian_optimization.random_search"
    title: ClassVar[str] = "Private random search"
    hue: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS)
    trainings: int = number(
        175, 2, 2000, label="Trainings", symbol="N", scale="log", help="Settings that are tried, a training each."
    )

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        """Return the plan with a single selection, on which the whole budget is spent."""
        if not budget.private:
            return Plan.fixed(facts, budget, (Laplace(math.inf),))  # an infinite ε is no noise
        eta = calibration.calibrate_selections(budget, np.ones(1), prior=facts.released)
        return Plan.fixed(facts, budget, (ExpMech(eta),), resolved={"selection_epsilon": eta})

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        facts = plan.facts
        losses = replicates * points_at_once(replicates, self.trainings, facts.n) * facts.n
        # 8 bytes a number: settings and a copy of them, losses and two copies.
        return replicates * (problem.replicate + 16.0 * self.trainings * facts.d) + 24.0 * losses

    def run(self, problem: TuningProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Evaluate all settings of each replicate, and yield the selected ones."""
        check_facts(problem, plan.facts)
        evaluations = problem.evaluations(mechanisms.replicates)
        start = problem.facts.starting_points(mechanisms.common)
        latest = Snapshot(0, {"x": start}, training_series(evaluations))
        yield latest
        low, high = problem.facts.box
        shape = (self.trainings, problem.facts.d)
        # `common` generators are the same for all methods: random searches of one experiment try the same settings.
        points = np.array([generator.uniform(low, high, shape) for generator in mechanisms.common])

        def show_progress() -> None:
            """Write the share of the settings that have been evaluated into the snapshot that was yielded last."""
            latest.within = float(evaluations.count.min()) / self.trainings

        with at_checkpoints(show_progress):
            query = evaluations.utilities(points)
        (event,) = plan.events
        if isinstance(event, Laplace):  # no privacy: the best, as the scale is 0; `laplace` takes queries in ℓ1 only
            selected = mechanisms.laplace(query._replace(norm="l1"), event).argmax(axis=1)
        else:
            selected = mechanisms.exponential(query, event)[:, 0]  # (R, 1): one selection per replicate
        yield Snapshot(1, {"x": points[np.arange(len(points)), selected]}, training_series(evaluations))


class GlobalSearch(Algorithm[TuningProblem, TuningFacts]):
    """Bayesian optimisation over the whole box with an upper confidence bound (GP-UCB, Srinivas et al. 2010).

    Every evaluation releases the users' mean loss with noise; the next points and the output follow from these noisy
    values. Kusner et al. 2015 release the result only, and their privacy needs that losses are draws of a Gaussian
    process, which cannot be checked; here privacy needs no such assumption (THEORY.md, section 8).

    >>> import dpviz
    >>> problem = dpviz.LengthScales(training_rows=20)
    >>> dpviz.Experiment(problem, dpviz.GlobalSearch(trainings=3), mu=1, replicates=2).run()
    <Trace of Private global search (UCB): 2 runs, 3 iterations>
    """

    kind: ClassVar[str] = "families.bayesian_optimization.global_search"
    title: ClassVar[str] = "Private global search (UCB)"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS, NOISY_LOSS)
    if_diverged: ClassVar[str] = "The noise is beyond all bounds. Use a larger budget or fewer trainings."
    trainings: int = number(
        175, 1, 1000, label="Trainings", symbol="N", scale="log", help="Each releases a noisy mean loss."
    )
    length_scale: float = number(
        4.0, 0.1, 50.0, label="Length scale", symbol="ℓ", scale="log", help="Of the Matérn kernel on the whole box."
    )
    first: int = number(10, 1, 100, label="Random points first", scale="log", help="Before the process is asked.")
    candidates: int = number(
        1000, 10, 5000, label="Candidates", scale="log", help="In each step: half anywhere, half near the best so far."
    )

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        """Return the plan with one noisy mean loss per training."""
        weights = np.ones(self.trainings)  # all trainings get equal parts of the budget, and use all n users
        events = calibration.calibrated_events(
            "gaussian", budget, weights=weights, m=facts.n, n=facts.n, prior=facts.released
        )
        noise = np.array([noise_scale(event, facts.loss_sensitivity) for event in events])
        # `assumed_noise` is what the process is told in the run; `noise` only states it.
        return Plan.fixed(facts, budget, events, noise={"loss": noise}, assumed_noise=noise)

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        facts = plan.facts
        # About four arrays of each shape for one replicate at a time. Per replicate: losses, a copy, and points.
        process = 4 * self.candidates * (self.trainings + facts.d) + 4 * self.trainings**2
        return replicates * (problem.replicate + 16.0 * facts.n + 8.0 * self.trainings * facts.d) + 8.0 * process

    def run(self, problem: TuningProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates, and yield after each training the evaluated point with the lowest posterior mean."""
        check_facts(problem, plan.facts)
        facts, count = problem.facts, mechanisms.replicates
        low, high = facts.box
        x = facts.starting_points(mechanisms.common)  # the output: the evaluated point with the lowest mean
        diverged = np.zeros(count, dtype=bool)
        # The evaluated points, and the noisy losses there; filled in step by step.
        points, values = np.empty((count, self.trainings, facts.d)), np.zeros((count, self.trainings))
        evaluations = problem.evaluations(count)
        yield Snapshot(0, {"x": x}, {**training_series(evaluations), NOISY_LOSS.name: np.full(count, np.nan)})
        noise = float(plan.schedule["assumed_noise"][0])  # the same in all steps
        surfaces = [Surface(self.length_scale, noise) for _ in range(count)]
        for t, event in enumerate(plan.events):
            for r, surface in enumerate(surfaces):
                checkpoint()
                candidates = mechanisms.public[r].uniform(low, high, (self.candidates, facts.d))
                # A heuristic: half of the candidates are near the best point so far, with the standard deviation 0.5.
                near = x[r] + 0.5 * mechanisms.public[r].standard_normal((self.candidates // 2, facts.d))
                candidates[: len(near)] = np.clip(near, low, high)
                # The last candidate is anywhere in the box: one of the random points with which the search begins.
                points[r, t] = candidates[-1] if t < self.first else candidates[surface.lowest(candidates, t)]
            noisy = mechanisms.gaussian(evaluations.mean_loss(points[:, t]), event)[:, 0]
            diverged = diverged | ~(np.abs(noisy) < DIVERGED)  # "not below" is true of NaN, too
            values[:, t] = np.where(diverged, 0.0, noisy)
            best = [surface.learn(points[r, : t + 1], values[r, : t + 1]) for r, surface in enumerate(surfaces)]
            x = np.where(diverged[:, None], x, points[np.arange(count), best])
            released = {**training_series(evaluations), NOISY_LOSS.name: values[:, t].copy()}
            yield Snapshot(t + 1, {"x": x}, released, status=divergence_status(diverged))


class Surface:
    """Posterior of the mean loss over the box by a Gaussian process, from noisy values that have been released.

    length : length scale of its kernel. noise : standard deviation of the values' noise.
    """

    def __init__(self, length: float, noise: float) -> None:
        self._kernel, self._noise = Matern(length), noise

    def learn(self, points: np.ndarray, values: np.ndarray) -> int:
        """Condition on the noisy values (N,) at points (N, d); return the index of the point with the lowest posterior
        mean."""
        scale = max(float(values.std()), 1e-12)  # a single value, or equal ones, have the deviation 0
        standardised = (values - values.mean()) / scale  # the process has mean 0 and variance 1
        gram = self._kernel.gram(points, points)
        noise = (self._noise / scale) ** 2 + MIN_NOISE
        self._points, self._factor = points, np.linalg.cholesky(gram + noise * np.eye(len(points)))  # L
        # L⁻ᵀ L⁻¹ y: `solve_triangular` applies L⁻¹, or L⁻ᵀ. Times covariances with the points, the weights give
        # posterior means.
        self._weights = solve_triangular(
            self._factor, solve_triangular(self._factor, standardised[:, None]), transposed=True
        )[:, 0]
        return int(np.argmin(gram @ self._weights))

    def lowest(self, candidates: np.ndarray, t: int) -> int:
        """Return the index of the candidate (C, d) with the lowest confidence bound in step t >= 1, after `learn`: the
        posterior mean less √β_t standard deviations, β_t = 0.4 ln(C t² π²/0.6) (THEORY.md, section 8)."""
        covariances = self._kernel.gram(self._points, candidates)
        # Of each candidate's variance, which is 1, the part that the evaluated points explain.
        explained = (solve_triangular(self._factor, covariances) ** 2).sum(axis=0)
        variance = np.maximum(1 - explained, 0.0)  # not below 0 by rounding
        beta = 0.4 * math.log(len(candidates) * t**2 * math.pi**2 / 0.6)
        return int(np.argmin(self._weights @ covariances - np.sqrt(beta * variance)))
