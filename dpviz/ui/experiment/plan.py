"""The plan of an experiment on its page: which arms have one, what theory says of them, and its figures."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.plots import plan_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import ArmStyle, arm_styles
from dpviz.privacy.budgets import ApproximateDP
from dpviz.ui import charts, components
from dpviz.ui.experiment import guarantee

MOST, OWN = 2_000_000, 250_000  # steps of the plans that are kept for all visitors, about 100 MB; and for one
CHARTS = 5_000  # steps that take as much room as the charts of a plan

Shown = list[Chart]
Predict = Callable[[Experiment, Mapping[str, Plan]], Any]


@dataclass(frozen=True)
class PlanView:
    """Everything that the plan's figures show.

    experiment : with the arms that have a plan. plans, styles : of these, by label. refused : why the others have none.
    predict : what the family's theory says of these plans, in the family's own terms, is computed when it is read.
    charts : those of the plan that have been made, by their place; each look of the page is sent its own.
    """

    experiment: Experiment
    plans: Mapping[str, Plan]
    styles: Mapping[str, ArmStyle]
    refused: Mapping[str, UserError]
    predict: Predict
    charts: dict[int, Chart] = field(default_factory=dict, repr=False)

    @cached_property
    def theory(self) -> Any:
        """What the family's theory says of the plans."""
        return self.predict(self.experiment, self.plans)

    @cached_property
    def size(self) -> int:
        """How much room it takes, in steps of a plan."""
        return sum(plan.iterations for plan in self.plans.values()) + CHARTS


class Views:
    """The plans that were asked for last. They hold nothing but what follows from an experiment's JSON text.

    most : their sizes together, at most.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[str, PlanView] = OrderedDict()

    @property
    def size(self) -> int:
        """Of all that are kept."""
        return sum(shown.size for shown in self._kept.values())

    def of(self, text: str, predict: Predict) -> PlanView:
        """The plans of an experiment, given as its text. Raises UserError if no arm has a plan."""
        with self._lock:
            if text in self._kept:
                self._kept.move_to_end(text)
                return self._kept[text]
        made = _view(text, predict)
        with self._lock:
            made = self._kept.setdefault(text, made)  # another visitor may have asked for it meanwhile
            while self.size > self._most:
                self._kept.popitem(last=False)
        return made


@st.cache_resource(show_spinner=False)
def shared() -> Views:
    """The plans of experiments on public data, for all visitors."""
    return Views(MOST)


@st.cache_resource(scope="session", show_spinner=False)
def _own() -> Views:
    """Those on a visitor's own file."""
    return Views(OWN)


def view(experiment: Experiment, predict: Predict) -> PlanView:
    """The plans of an experiment and their theory; made once for all visitors where its data are public. Raises
    UserError if no arm has a plan."""
    views = shared() if experiment.public else _own()
    return views.of(experiment.to_json(), predict)


def _view(text: str, predict: Predict) -> PlanView:
    planned = Experiment.from_json(text).planned()
    ready = planned.ready()
    # Without their tracebacks, which would keep the page of whoever has come first, with all that is drawn on it.
    refused = {label: UserError(str(error), title=error.title) for label, error in planned.refused.items()}
    return PlanView(ready, planned.plans, arm_styles(ready.arms), refused, predict)


def name(experiment: Experiment | None) -> str:
    """A name for settings, by which a browser knows them again; it means nothing to another process."""
    return "" if experiment is None else str(hash(experiment.to_json()))


def stops(
    slider: str,
    experiments: Sequence[Experiment | None],
    keys: Sequence[str],
    predict: Predict,
    drawings: Callable[[PlanView], Iterator[Chart]],
) -> str:
    """The guarantee and the plan's first charts at every stop of a slider, as `components.stops` takes them.

    experiments : (stops,) what is compared at each; None where the settings do not go together, and nothing is drawn.
    keys : that the charts are drawn with. On public data they are made once for all visitors.
    """
    texts = tuple("" if experiment is None else experiment.to_json() for experiment in experiments)
    public = all(experiment is None or experiment.public for experiment in experiments)
    pack, views = (_shared_stops, shared()) if public else (_stops, _own())
    return pack(slider, texts, tuple(keys), charts.look(), views, predict, drawings)


def _stops(
    slider: str,
    texts: Sequence[str],
    keys: Sequence[str],
    look: tuple[bool, bool],  # noqa: ARG001 (names what is cached, as the charts are for this look of the page)
    _views: Views,
    _predict: Predict,
    _drawings: Callable[[PlanView], Iterator[Chart]],
) -> str:
    figures: dict[str, list[str]] = {key: [] for key in keys}
    lines: list[str] = []
    with _ONE:  # visitors who have let go of a slider then wait for one such computation at most
        for text in texts:
            made: Iterator[Chart] = iter(())
            lines.append("")
            if text:
                with suppress(UserError):  # no method has a plan there
                    shown = _views.of(text, _predict)
                    made, lines[-1] = kept(shown, _drawings(shown)), guarantee.in_words(shown.experiment, shown.plans)
            for key in keys:
                chart = next(made, None)
                figures[key].append("" if chart is None else charts.sent(chart)["figure"])
    return components.pack_stops(slider, [str(hash(text)) for text in texts], lines, figures)


_ONE = threading.Lock()
_shared_stops = st.cache_resource(max_entries=64, show_spinner=False)(_stops)


def drawings(shown: PlanView) -> Iterator[Chart]:
    """The scale of the noise in each step, and the privacy spent."""
    yield plan_figures.noise_schedule(shown.plans, shown.styles)
    yield privacy_spent(shown)


def privacy_spent(shown: PlanView, after: str = "step") -> Chart:
    """What has been spent after each step, in the currency of the budget, or as ε at its δ."""
    budget, words = shown.experiment.budget, {"remark": shown.experiment.budget.remark, "after": after}
    if isinstance(budget, ApproximateDP):
        return plan_figures.epsilon_spent(shown.plans, shown.styles, budget.delta, budget.epsilon, **words)
    limit = None if budget.currency is None else budget.limit
    return plan_figures.privacy_spent(shown.plans, shown.styles, budget.currency or "rho", limit, **words)


def kept(shown: PlanView, drawings: Iterator[Chart]) -> Iterator[Chart]:
    """The charts that `drawings` makes, each made once: the page of a plan is drawn again and again."""
    known = [shown.charts[place] for place in range(len(shown.charts))]
    yield from known
    for place, chart in islice(enumerate(drawings), len(known), None):
        yield shown.charts.setdefault(place, chart)  # another visitor may have made it meanwhile


def size(shown: PlanView) -> str:
    """The number of rows, in a line."""
    return f"n = {next(iter(shown.plans.values())).facts.n:,} rows."


def refusals(refused: Mapping[str, UserError]) -> None:
    """Say which of the chosen methods have no plan, and why, once per reason."""
    for reason in dict.fromkeys(str(error) for error in refused.values()):
        labels = [label for label, error in refused.items() if str(error) == reason]
        st.warning(reason, title=f"Left out: {', '.join(labels)}")


def notes(plans: Mapping[str, Plan]) -> None:
    """What the plans warn of, once per sentence, with the methods that it is about."""
    for note in dict.fromkeys(note for plan in plans.values() for note in plan.notes):
        st.warning(note, title=", ".join(label for label, plan in plans.items() if note in plan.notes))


def advised(told: str, key: str, button: str, **options: Any) -> None:
    """What is advised, in a line with a button that takes it; options : of the button."""
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown(f":material/lightbulb: {told}", width="stretch")
        st.button(button, key=key, icon=":material/tune:", **options)


def tabs(small: Sequence[Chart], drawings: Iterator[Chart], key: str) -> dict[str, Callable[[], None]]:
    """The charts of a plan in two tabs: what it comes to; and those that stand small above, with the rest."""
    return {
        "Plan": lambda: draw(list(islice(drawings, 2)), key),
        "More charts": lambda: draw([*small, *islice(drawings, 2, None)], f"{key}_more"),
    }


def draw(drawings: Sequence[Chart], key: str) -> None:
    """Charts, two side by side; their keys are `<key>_<number>`. In place of one that has nothing to draw stands the
    sentence that says why."""
    columns = [column for _ in range((len(drawings) + 1) // 2) for column in st.columns(2, gap="medium")]
    for number, (column, chart) in enumerate(zip(columns, drawings, strict=False)):
        with column:
            if chart.figure.data:
                charts.show(chart, f"{key}_{number}")
                continue
            st.subheader(chart.heading, anchor=False)
            for note in chart.figure.layout.annotations:
                st.info(f"{note.text[0].upper()}{note.text[1:].rstrip('.')}.", icon=":material/block:")
            st.caption(chart.caption)
