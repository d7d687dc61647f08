"""Lessons: one idea each, shown by two settings that differ in one control. The reader predicts, then a run decides.

The right answer is stored nowhere. Answers are intervals of a measured ratio, so that a lesson cannot become wrong
unnoticed; and every number in its texts is a format field that is filled from plans and runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isnan
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from dpviz import resources
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.changes import Change, changes
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import quantiles
from dpviz.experiments.trace import Trace
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.audit import CONFIDENCE
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.events import Relation, StatedPureDP, grouped
from dpviz.privacy.local import LaplaceCounts, RandomisedResponse
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.specification import Specification, choice

EQUALS = "\u00a0=\u00a0"  # with spaces at which no line breaks
Numbers = Mapping[str, "float | int | str"]  # by the names by which the texts of a lesson call them
Frame = tuple[tuple[float, float], tuple[float, float]]  # both ends of a chart's horizontal and of its vertical axis
Track = Literal["understand", "plan", "deep"]
M = TypeVar("M", bound=AnyAlgorithm)


@dataclass(frozen=True)
class Side:
    """One of a lesson's two settings, with its plans and its results so far.

    settings : an Experiment, if something runs.
    plans : the plans of an Experiment's arms, by label; else empty.
    trace : the records of its run; None until it has run.
    """

    settings: Specification
    plans: Mapping[str, Plan] = field(default_factory=dict)
    trace: Trace | None = None

    @property
    def experiment(self) -> Experiment:
        """The settings as an Experiment, for a side that runs."""
        assert isinstance(self.settings, Experiment)
        return self.settings

    @property
    def plan(self) -> Plan:
        """The plan of the side's only method."""
        (plan,) = self.plans.values()
        return plan

    def method(self, cls: type[M]) -> M:
        """Return the side's first method, which must be of the class `cls`."""
        method = self.experiment.arms[0].algorithm
        assert isinstance(method, cls)
        return method

    def ends(self, arm: str, metric: str) -> np.ndarray:
        """Return the values of a metric at the last iteration of the method `arm`, (R,) for R replicates."""
        assert self.trace is not None
        _, values = self.trace.series(arm, metric)
        return values[-1]


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of a lesson's chart.

    x, y : its points, (k,) each. low, high : its band at these points, if it has one.
    name : the label of the line among those of its side; empty if it is the only one.
    """

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    name: str = ""


@dataclass(frozen=True)
class LessonAxes:
    """Titles and scales of a lesson's chart.

    diagnostic : true if its curves read the raw data. each : true if they show every run instead of the median.
    height : pixels of the chart.
    """

    x: str
    y: str
    log_x: bool = False
    log_y: bool = True
    diagnostic: bool = False
    each: bool = False
    height: int = 400

    def describe(self) -> str:
        """Return a phrase with both titles, such as "Excess loss against step t"."""
        return f"{self.y} against {self.x[0].lower()}{self.x[1:]}"


class Measure(ABC):
    """A quantity that is measured on both sides of a lesson, with its chart and its numbers for the texts."""

    unit: ClassVar[str] = ""  # follows its numbers in texts

    @abstractmethod
    def value(self, side: Side) -> float:
        """Return the number of a side that is compared with that of the other side."""

    @abstractmethod
    def curves(self, side: Side) -> tuple[Curve, ...]:
        """Return the lines of a side for the chart; none before it has run."""

    @abstractmethod
    def axes(self, side: Side) -> LessonAxes:
        """Return the titles and scales of the chart."""

    @abstractmethod
    def reach(self, side: Side) -> tuple[float, float]:
        """Return the lower and the upper end of the chart's horizontal axis, which are known before anything runs."""

    @abstractmethod
    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of a side that the lesson's texts may name; some are known only when it has run."""

    def noise(self, _: Side) -> tuple[Curve, ...]:
        """Return the lines of a second chart, of the noise scale in each step, which plans know before anything runs;
        none for most measures."""
        return ()

    def ratio(self, before: Side, after: Side) -> float:
        """Return the number of `after` over that of `before`, which decides between the answers; nan if undefined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(self.value(after), self.value(before)))

    def outcome(self, before: Side, after: Side) -> str:
        """Return a phrase with both numbers and their ratio, such as "2 → 4, 2 times as large"."""
        old, new = (f"{short(self.value(side))}{self.unit}" for side in (before, after))
        ratio = self.ratio(before, after)
        if not 0 < ratio < np.inf:
            comparison = "which no factor tells"
        elif abs(np.log(ratio)) < np.log(1.05):  # within 5 %, up or down
            comparison = "about the same"
        elif ratio > 1:
            comparison = f"{short(ratio, 2)} times as large"
        else:
            comparison = f"{short(1 / ratio, 2)} times smaller"
        return f"{old} → {new}, {comparison}"


@dataclass(frozen=True)
class FinalMedian(Measure):
    """The median of a metric over the replicates at the last iteration of a method; the chart has all iterations.

    arm : label of the method. metric : name of a metric that the run records.
    schedule : the kind of noise in the plan whose scale a second chart shows; "" for none.
    """

    arm: str
    metric: str = "objective_gap"
    schedule: str = ""

    def value(self, side: Side) -> float:
        _, values = self._quantiles(side)
        return float(values[-1, 1])  # the last median

    def curves(self, side: Side) -> tuple[Curve, ...]:
        """Return the median at every recorded iteration, with a band from the 10 to the 90 % quantile."""
        if side.trace is None:
            return ()
        iterations, values = self._quantiles(side)
        low, median, high = values.T
        return (Curve(iterations, median, low, high),)

    def axes(self, side: Side) -> LessonAxes:
        metric = side.experiment.metrics()[self.metric]
        is_log, is_diagnostic = metric.scale == "log", not metric.released
        height = 300 if self.schedule else LessonAxes.height  # a chart of the noise goes below
        return LessonAxes("Step t", metric.label, log_y=is_log, diagnostic=is_diagnostic, height=height)

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, float(side.plans[self.arm].iterations)

    def noise(self, side: Side) -> tuple[Curve, ...]:
        if not self.schedule:
            return ()
        scales = side.plans[self.arm].noise[self.schedule]
        return (Curve(np.arange(1, len(scales) + 1), scales),)

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of the plan and, after the run, of the medians.

        For each kind of noise: its scale in the last step, in the first step (`…_first`), and the largest (`…_most`).
        `left` is the last median in per cent of the first, `highest` the largest as a multiple of the first.
        """
        plan, experiment = side.plans[self.arm], side.experiment
        numbers_by_name: dict[str, float | int | str] = {
            "steps": plan.iterations,
            "rows": plan.facts.n,
            "budget": experiment.budget.describe(),
            "repeats": experiment.replicates,
        }
        for name, scales in plan.noise.items():
            numbers_by_name |= {
                name: float(scales[-1]),
                f"{name}_first": float(scales[0]),
                f"{name}_most": float(scales.max()),
            }
        if side.trace is not None:
            _, values = self._quantiles(side)
            medians = values[:, 1]
            numbers_by_name |= {"start": float(medians[0]), "end": float(medians[-1])}
            if medians[0] > 0:
                numbers_by_name |= {
                    "left": 100 * float(medians[-1] / medians[0]),
                    "highest": float(medians.max() / medians[0]),
                }
        return numbers_by_name

    def _quantiles(self, side: Side) -> tuple[np.ndarray, np.ndarray]:
        """Return the recorded iterations (k,), and there 10 % quantile, median and 90 % quantile, (k, 3)."""
        assert side.trace is not None
        iterations, values = side.trace.series(self.arm, self.metric)
        return iterations, quantiles(values)


@dataclass(frozen=True)
class Spread(FinalMedian):
    """The number of `FinalMedian`, with a chart of the last values of all replicates, from lowest to highest."""

    def curves(self, side: Side) -> tuple[Curve, ...]:
        """Return the sorted last values against the share of replicates that end lower, in per cent."""
        if side.trace is None:
            return ()
        ends = np.sort(side.ends(self.arm, self.metric))
        shares = 100 * (np.arange(len(ends)) + 0.5) / len(ends)  # 0.5: half of the run itself counts as lower
        return (Curve(shares, ends),)

    def axes(self, side: Side) -> LessonAxes:
        return replace(super().axes(side), x="Share of the runs that end lower [%]", each=True)

    def reach(self, _: Side) -> tuple[float, float]:
        return 0.0, 100.0


@dataclass(frozen=True)
class Answer:
    """One of the answers that a reader can choose: right if low <= ratio < high.

    low, high : ends of an interval of the ratio that `Measure.ratio` returns.
    text : the answer, a template with these fields: `{low}` and `{high}`; `{above}` = 1/high and `{below}` = 1/low, for
        ratios less than one: "{above} to {below} times lower" is "2 to 10 times lower" for low = 0.1, high = 0.5;
        `{least}` and `{most}`, the ends in per cent.
    """

    text: str
    low: float
    high: float

    @property
    def words(self) -> str:
        """The text, with the ends of the interval filled in."""
        ends = {"low": self.low, "high": self.high, "least": 100 * self.low, "most": 100 * self.high}
        ends["above"] = 1 / self.high if self.high else np.inf
        ends["below"] = 1 / self.low if self.low else np.inf
        return self.text.format(**{name: short(value) for name, value in ends.items()})


def _nothing(*_: Side) -> Numbers:
    """Return no numbers: for a lesson whose measure has all the numbers that its texts name."""
    return {}


@dataclass(frozen=True)
class Lesson:
    """A lesson in four steps: the setting, a prediction, the result, and its reason.

    slug : the name in the lesson's address, which never changes.
    track : one of three ways through the lessons, whose list it is in. minutes : the time that the lesson takes.
    picture : a sketch of the question for the list: SVG paths in a frame of 96 × 56, by the pen that draws them, see
        `learn.page`.
    page : the name of a family or of another page, which "Try it yourself" opens with the settings `after`.
    before, after : two settings that differ in one control; Experiments, if anything runs.
    measure : the quantity that is compared.
    setting, question, why, try_it : the texts of the steps. They are templates with the fields `before[…]` and
        `after[…]` for the numbers of the measure, and those of `also`. The first two may use only those numbers of
        `after` that are known before it has run.
    answers : the intervals of the ratio between which the reader chooses.
    heights : lower and upper end of the chart's vertical axis, in all steps: with room for the curves after the change,
        and for as much that does not come.
    is_drawn : true if the reader draws the curve, whose end is the prediction, instead of choosing an answer.
    also : a function that returns further numbers for the texts, from both sides.
    """

    slug: str
    title: str
    track: Track
    minutes: int
    picture: Mapping[str, str]
    page: str
    before: Specification
    after: Specification
    measure: Measure
    setting: str
    question: str
    why: str
    try_it: str
    answers: tuple[Answer, ...]
    heights: tuple[float, float]
    is_drawn: bool = False
    also: Callable[[Side, Side], Numbers] = _nothing

    @cached_property
    def change(self) -> Change:
        """The one control that differs. Raises ValueError if there is not exactly one."""
        (change,) = changes(self.before, self.after)
        return change

    def frame(self, after: Side) -> Frame:
        """Return the ends of both axes of the chart, the same in all steps; `after` need not have run."""
        return self.measure.reach(after), self.heights

    def answer(self, ratio: float) -> Answer:
        """Return the right answer, i.e. the one whose interval holds the ratio.

        For a run that has diverged, and so has no ratio, it is the answer without an upper end.
        """
        value = inf if isnan(ratio) else max(ratio, 0.0)  # negative: 0, the lower end of the lowest answer
        if value == inf:
            return next(answer for answer in self.answers if answer.high == inf)
        return next(answer for answer in self.answers if answer.low <= value < answer.high)

    def fill_in(self, template: str, before: Side, after: Side, has_run: bool = True) -> str:
        """Return a text of the lesson with its numbers filled in.

        template : one of the lesson's texts. has_run : true if both sides have run; else dots replace the numbers that
            are not known yet.
        """
        mapping = dict if has_run else _Dotted
        fields: dict[str, Any] = mapping()
        for name, side in (("before", before), ("after", after)):
            fields[name] = mapping({key: _as_text(value) for key, value in self.measure.numbers(side).items()})
        if has_run:
            fields |= {name: _as_text(value) for name, value in self.also(before, after).items()}
        return template.format_map(fields).replace(" = ", EQUALS)


class _Dotted(dict[str, Any]):
    """A dictionary in which every missing value is "…"."""

    def __missing__(self, _: str) -> str:
        return "…"


def load_lesson(package: str, slug: str, settings: type[Specification] = Experiment, **parts: Any) -> Lesson:
    """Read a lesson, with its texts, answers and settings, from the entry `slug` in `lessons.toml` of the package.

    The entry's `before` has settings as in a settings file, without the fields that have their default; `change` is the
    path and the new value of the one field that differs in `after`; the other items are fields of `Lesson`.

    settings : the class of the settings. parts : the fields of `Lesson` that the entry does not have.

    Raises KeyError if there is no such entry.
    """
    entry = dict(resources.data(package, "lessons.toml")[slug])
    before, change = entry.pop("before"), entry.pop("change")
    after = deepcopy(before)
    *path, name = change["path"].split(".")
    container: Any = after  # the mapping within `after` that holds the field
    for key in path:
        container = container[int(key)] if isinstance(container, list) else container[key]
    container[name] = change["value"]
    entry["answers"] = tuple(Answer(**fields) for fields in entry["answers"])
    entry["heights"] = tuple(entry["heights"])
    entry["before"] = settings.model_validate(before)
    entry["after"] = settings.model_validate(after)
    return Lesson(slug=slug, **(entry | parts))


def _as_text(value: float | int | str) -> str:
    """Return a number as a lesson's text shows it; texts stay as they are."""
    return value if isinstance(value, str) else short(value)


# ------------------------------------------------------------------------------------------ lessons on guarantees alone

FALSE_ALARMS = 0.01  # share of people who are not in the data, but are taken to be
TOLERANCE = 0.01  # error of a share for which lessons say how many people are needed
FEW = 10  # people with whom the chart of errors begins
_POINTS = 40  # points of a curve


class BudgetSettings(Specification):
    """Settings of a lesson in which nothing runs: noisy means, and the budget that they share."""

    kind: ClassVar[str] = "experiments.budget_lessons.released"
    means: NoisyMeans
    budget: Budget


class NoiseOfMeans(Measure):
    """The scale σ of the noise in each of T means that share a budget; the chart shows it against T.

    A second line shows σ if privacy losses added up like debts, so that each mean had the T-th part of the budget.
    """

    def value(self, side: Side) -> float:
        settings = _budget_settings(side)
        return settings.means.noise_scale(settings.budget)

    def curves(self, side: Side) -> tuple[Curve, ...]:
        """Return the noise scale for 1 to T means, and, unless T is 1, the scale if losses added up like debts."""
        settings = _budget_settings(side)
        counts = np.unique(np.geomspace(1, settings.means.iterations, _POINTS).round().astype(int))
        means = [settings.means.replaced(iterations=int(count)) for count in counts]
        noise = Curve(counts, np.array([item.noise_scale(settings.budget) for item in means]))
        if len(counts) == 1:
            return (noise,)
        debts = np.array([_noise_of_equal_shares(settings, int(count)) for count in counts])
        return noise, Curve(counts, debts, name="added up like debts")

    def axes(self, _: Side) -> LessonAxes:
        return LessonAxes("Means T that share the budget", "Noise in each mean σ", log_x=True)

    def reach(self, side: Side) -> tuple[float, float]:
        return 1.0, float(_budget_settings(side).means.iterations)

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of the means and of their noise.

        `debts` is the noise scale if losses added up, `laplace` that of Laplace noise at a pure ε of the budget's
        amount; `alone` is ε of one mean, `sum` T times that, `root` the square root of T.
        """
        settings = _budget_settings(side)
        means, budget = settings.means, settings.budget
        sigma = self.value(side)
        delta = budget.own_delta(0.0)  # 0 for a budget without δ
        alone = accountants.tightest(means.events_of_noise(sigma)[:1], delta).epsilon  # ε of a single one of the means
        return {
            "means": means.iterations,
            "rows": means.rows,
            "budget": budget.describe(),
            "noise": sigma,
            "debts": _noise_of_equal_shares(settings, means.iterations),
            "alone": alone,
            "sum": means.iterations * alone,
            "root": short(np.sqrt(means.iterations)),
            "laplace": means.replaced(noise="laplace").noise_scale(PureDP(epsilon=budget.amount)),
        }


def _noise_of_equal_shares(settings: BudgetSettings, count: int) -> float:
    """Return the noise scale of each of `count` means if all numbers of the budget, such as ε and δ, are split equally.

    This is what is needed if privacy losses simply add up.
    """
    budget = settings.budget
    equal_parts = {control.name: getattr(budget, control.name) / count for control in budget.controls()}
    return settings.means.replaced(iterations=1).noise_scale(budget.replaced(**equal_parts))


class ShareFound(Measure):
    """The share of the people in the data whom an attacker finds, in per cent, at a rate FALSE_ALARMS of false alarms;
    the chart shows it against ε."""

    unit = " %"

    def value(self, side: Side) -> float:
        return self.share(side, _budget_settings(side).budget.amount)

    def curves(self, side: Side) -> tuple[Curve, ...]:
        epsilons = np.linspace(0.01, _budget_settings(side).budget.amount, _POINTS)  # no budget is 0
        return (Curve(epsilons, np.array([self.share(side, float(epsilon)) for epsilon in epsilons])),)

    def share(self, _: Side, epsilon: float) -> float:
        """Return the largest share of people, in per cent, that an attacker can find under pure ε-DP.

        It is 1 minus the smallest rate of misses at a rate FALSE_ALARMS of false alarms. Subclasses read the side, too.
        """
        return 100 * (1 - float(PureDP(epsilon=epsilon).tradeoff(FALSE_ALARMS)))

    def axes(self, _: Side) -> LessonAxes:
        return LessonAxes("ε", f"People found at {short(100 * FALSE_ALARMS)} % false alarms [%], at most", log_y=False)

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, _budget_settings(side).budget.amount

    def numbers(self, side: Side) -> Numbers:
        epsilon = _budget_settings(side).budget.amount
        return {
            "epsilon": epsilon,
            "found": short_up(self.value(side)),
            "factor": float(np.exp(epsilon)),
            "alarms": 100 * FALSE_ALARMS,
        }


class NeighbourSettings(BudgetSettings):
    """Settings of a lesson on the two neighbouring relations: a budget, and the change that attackers look for."""

    kind: ClassVar[str] = "experiments.budget_lessons.neighbours"
    relation: Relation = choice(
        "add/remove-one",
        {"add/remove-one": "one comes or goes", "replace-one": "one is replaced"},
        label="What may change",
        help="The change of the table by one person that an attacker looks for.",
    )


class ShareFoundByChange(ShareFound):
    """The number of `ShareFound` for the change that the settings name, under an ε for one person who comes or goes."""

    def share(self, side: Side, epsilon: float) -> float:
        return super().share(side, _epsilon_of_change(side, epsilon))

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of `ShareFound`, and in `promised` the ε about the change that the settings name."""
        return {**super().numbers(side), "promised": _epsilon_of_change(side, _budget_settings(side).budget.amount)}


def _epsilon_of_change(side: Side, epsilon: float) -> float:
    """Return the ε about the change that the settings name, if that about a person who comes or goes is `epsilon`."""
    settings = side.settings
    assert isinstance(settings, NeighbourSettings)
    changes_of_one = 1 if settings.relation == "add/remove-one" else 2  # to replace is to remove and to add
    release = grouped(StatedPureDP(epsilon), changes_of_one)  # the same release for so many changes at once
    assert isinstance(release, StatedPureDP)
    return release.eps


class Survey(BudgetSettings):
    """Settings of a lesson on a yes/no question: as many people as the means have rows, and where noise is added."""

    kind: ClassVar[str] = "experiments.budget_lessons.survey"
    noise: Literal["central", "local"] = choice(
        "central",
        {"central": "on a server", "local": "on every phone"},
        label="Noise",
        help="A server adds noise to the number of yes; a phone tosses coins before it says anything.",
    )

    @property
    def model(self) -> LaplaceCounts | RandomisedResponse:
        """The release of the share of yes, under the budget."""
        epsilon = self.budget.amount
        return LaplaceCounts(epsilon) if self.noise == "central" else RandomisedResponse(epsilon)


class SurveyError(Measure):
    """The error of the share of yes, in points of per cent, that is not exceeded with probability CONFIDENCE; the chart
    shows it against the number of people n."""

    unit = " points"

    def value(self, side: Side) -> float:
        survey = _survey(side)
        return 100 * survey.model.error(survey.means.rows)

    def curves(self, side: Side) -> tuple[Curve, ...]:
        survey = _survey(side)
        people = np.unique(np.geomspace(FEW, survey.means.rows, _POINTS).round().astype(int))
        return (Curve(people, 100 * np.array([survey.model.error(int(n)) for n in people])),)

    def axes(self, _: Side) -> LessonAxes:
        return LessonAxes("People n", f"Error of the share of yes, {short(100 * CONFIDENCE)} % [points]", log_x=True)

    def reach(self, side: Side) -> tuple[float, float]:
        return float(FEW), float(_survey(side).means.rows)

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of the survey.

        `truth` and `opposite` are the probabilities of the two reports of a phone in per cent; `needed` is the number
        of people for an error of `tolerance` points, and `half` for half of that.
        """
        survey = _survey(side)
        epsilon, model = survey.budget.amount, survey.model
        response = RandomisedResponse(epsilon)
        return {
            "people": survey.means.rows,
            "epsilon": epsilon,
            "confidence": 100 * CONFIDENCE,
            "error": self.value(side),
            "truth": 100 * response.truth,
            "opposite": 100 * response.lie,
            "tolerance": 100 * TOLERANCE,
            "needed": f"{model.people(TOLERANCE):,}",
            "half": f"{model.people(TOLERANCE / 2):,}",
        }


def _survey(side: Side) -> Survey:
    """Return the settings of a side of a lesson on a survey."""
    assert isinstance(side.settings, Survey)
    return side.settings


def _budget_settings(side: Side) -> BudgetSettings:
    """Return the settings of a side in which nothing runs."""
    assert isinstance(side.settings, BudgetSettings)
    return side.settings


def _factors(old_side: Side, new_side: Side) -> Numbers:
    """Return further numbers for the texts: by which factors both sides differ.

    times_means : ratio of the numbers of means. times_debts : ratio of the noise scales, if every mean of the new side
        got an equal share of the budget.
    """
    old, new = _budget_settings(old_side), _budget_settings(new_side)
    noise = _noise_of_equal_shares(new, new.means.iterations)
    return {
        "times_means": short(new.means.iterations / old.means.iterations),
        "times_debts": short(noise / old.means.noise_scale(old.budget), 2),
    }


CURRENCIES = load_lesson(__package__, "currencies", BudgetSettings, measure=NoiseOfMeans(), also=_factors)
PERSON = load_lesson(__package__, "person", BudgetSettings, measure=ShareFound())
NEIGHBOURS = load_lesson(__package__, "neighbours", NeighbourSettings, measure=ShareFoundByChange())
TRUST = load_lesson(__package__, "trust", Survey, measure=SurveyError())

LESSONS = (PERSON, NEIGHBOURS, TRUST, CURRENCIES)
