"""The plan of an experiment on its page: which arms have one, the theory of these arms, and the plan's charts.

Plans follow from settings alone and read no data. They are cached by the JSON text of the experiment, for all visitors
if the data are public, and else in the session of the visitor.
"""

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

# Largest size of the cached plans of all visitors together, about 100 MB, and of one visitor on a file; both counted in
# steps, as `PlanView.size` is.
MAX_SHARED, MAX_OWN = 2_000_000, 250_000
CHARTS_SIZE = 5_000  # number of steps of a plan that take as much memory as the charts of a plan

Charts = list[Chart]  # charts that a page has drawn
Predict = Callable[[Experiment, Mapping[str, Plan]], Any]  # a family's theory of the plans of an experiment, by label


@dataclass(frozen=True)
class PlanView:
    """An experiment with its plans, and everything else that the charts of the plan show.

    experiment : only with the arms that have a plan. plans, styles : the plan and the style of each of them, by label.
    refused : the errors of the other arms, by label. predict : computes `theory` when it is first read.
    charts : the charts of the plan that have been made so far, by their position in the family's order; None after
    the last one, once all have been made.
    """

    experiment: Experiment
    plans: Mapping[str, Plan]
    styles: Mapping[str, ArmStyle]
    refused: Mapping[str, UserError]
    predict: Predict
    charts: dict[int, Chart | None] = field(default_factory=dict, repr=False)

    @cached_property
    def theory(self) -> Any:
        """The predictions of the family's theory for these plans, in a type of the family's own."""
        return self.predict(self.experiment, self.plans)

    @cached_property
    def size(self) -> int:
        """Its size in memory, counted in steps of a plan."""
        return sum(plan.iterations for plan in self.plans.values()) + CHARTS_SIZE


class Views:
    """A cache of the plans that were used last, by the JSON text of their experiment, for several threads.

    The text also decides the family, hence its `predict`, which is no part of the key.

    max_size : the largest sum of the sizes of its plans.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size, self._lock = max_size, threading.Lock()
        self._cached: OrderedDict[str, PlanView] = OrderedDict()

    @property
    def size(self) -> int:
        """The sum of the sizes of the cached plans."""
        return sum(plan_view.size for plan_view in self._cached.values())

    def of(self, text: str, predict: Predict) -> PlanView:
        """Return the plans of the experiment with the JSON text `text`. Raises UserError if no arm has a plan."""
        with self._lock:
            if text in self._cached:
                self._cached.move_to_end(text)
                return self._cached[text]
        planned = Experiment.from_json(text).planned()  # takes long, so other threads are not kept waiting meanwhile
        ready = planned.ready()
        # Errors without their tracebacks, which would keep the page of the first visitor with all that is drawn on it.
        refused = {label: UserError(str(error), title=error.title) for label, error in planned.refused.items()}
        plan_view = PlanView(ready, planned.plans, arm_styles(ready.arms), refused, predict)
        with self._lock:
            plan_view = self._cached.setdefault(text, plan_view)  # another thread may have planned it meanwhile
            while self.size > self._max_size:
                self._cached.popitem(last=False)
        return plan_view


@st.cache_resource(show_spinner=False)
def shared() -> Views:
    """Return the one cache of plans of experiments on public data, for all visitors."""
    return Views(MAX_SHARED)


@st.cache_resource(scope="session", show_spinner=False)
def _own_views() -> Views:
    """Return the cache of plans of experiments on this visitor's file, which ends with the session."""
    return Views(MAX_OWN)


def view(experiment: Experiment, predict: Predict) -> PlanView:
    """Return the plans of an experiment with their theory, cached. Raises UserError if no arm has a plan."""
    views = shared() if experiment.public else _own_views()
    return views.of(experiment.to_json(), predict)


def settings_id(experiment: Experiment | None) -> str:
    """Return a text by which the browser recognises the settings of an experiment; "" without an experiment.

    It is a hash that differs between processes.
    """
    return "" if experiment is None else str(hash(experiment.to_json()))


def pack_stops(
    slider: str,
    experiments: Sequence[Experiment | None],
    keys: Sequence[str],
    predict: Predict,
    make_charts: Callable[[PlanView], Iterator[Chart]],
) -> str:
    """Return the guarantee and the plan's first charts at every stop of a slider, as `components.stops` sends them.

    With them the browser shows the plan at each stop while the slider is dragged. On public data they are computed once
    for all visitors.

    slider : key of the slider. experiments : the experiment at each stop, None where the settings do not go together.
    keys : keys of the charts on the page, which are the first that `make_charts` yields; as many are packed.
    """
    texts = tuple("" if experiment is None else experiment.to_json() for experiment in experiments)
    public = all(experiment is None or experiment.public for experiment in experiments)
    pack, views = (_pack_shared_stops, shared()) if public else (_pack_stops, _own_views())
    return pack(slider, texts, tuple(keys), charts.page_style(), views, predict, make_charts)


def _pack_stops(
    slider: str,
    texts: Sequence[str],
    keys: Sequence[str],
    style: tuple[bool, bool],  # noqa: ARG001 (a part of the cache key: `charts.browser_data` depends on the style of the page)
    _views: Views,
    _predict: Predict,
    _make_charts: Callable[[PlanView], Iterator[Chart]],
) -> str:
    """Return the text of `pack_stops`. texts : JSON of the experiment at each stop, "" for none. style : of the page.

    Streamlit leaves parameters with an underscore out of the cache key.
    """
    figures: dict[str, list[str]] = {key: [] for key in keys}
    lines: list[str] = []
    with _STOPS_LOCK:  # one such computation at a time: visitors who have let go of a slider then wait for one at most
        for text in texts:
            plan_charts: Iterator[Chart] = iter(())
            lines.append("")
            if text:
                with suppress(UserError):  # no method has a plan there
                    plan_view = _views.of(text, _predict)
                    plan_charts = cached_charts(plan_view, _make_charts(plan_view))
                    lines[-1] = guarantee.in_words(plan_view.experiment, plan_view.plans)
            for key in keys:
                chart = next(plan_charts, None)
                figures[key].append("" if chart is None else charts.browser_data(chart)["figure"])
    return components.pack_stops(slider, [str(hash(text)) for text in texts], lines, figures)


_STOPS_LOCK = threading.Lock()  # of the computation of all stops of a slider
_pack_shared_stops = st.cache_resource(max_entries=64, show_spinner=False)(_pack_stops)


def basic_charts(plan_view: PlanView) -> Iterator[Chart]:
    """Yield the chart of the noise's scale in each step, and that of the privacy spent."""
    yield plan_figures.noise_schedule(plan_view.plans, plan_view.styles)
    yield privacy_spent(plan_view)


def privacy_spent(plan_view: PlanView, step_name: str = "step") -> Chart:
    """Return the chart of the privacy spent after each step, in the currency of the budget, or as ε at its δ.

    step_name : as the family calls its steps.
    """
    budget, texts = plan_view.experiment.budget, {"remark": plan_view.experiment.budget.remark, "step_name": step_name}
    if isinstance(budget, ApproximateDP):
        return plan_figures.epsilon_spent(plan_view.plans, plan_view.styles, budget.delta, budget.epsilon, **texts)
    if budget.currency is None:  # a guarantee such as Rényi DP: read as ρ, in which it is no limit
        return plan_figures.privacy_spent(plan_view.plans, plan_view.styles, "rho", limit=None, **texts)
    return plan_figures.privacy_spent(plan_view.plans, plan_view.styles, budget.currency, budget.limit, **texts)


def cached_charts(plan_view: PlanView, plan_charts: Iterator[Chart]) -> Iterator[Chart]:
    """Yield all `plan_charts`: first those that `plan_view.charts` has, then the others, which are stored in it.

    The page of a plan is drawn again and again, and must not make its charts each time.
    """
    count = 0
    for chart in list(plan_view.charts.values()):  # a copy: another visitor may add charts meanwhile
        if chart is None:  # all charts have been made
            return
        yield chart
        count += 1
    for chart in islice(plan_charts, count, None):  # the iterator makes the first charts again on its way to the others
        # Where another visitor has made the chart meanwhile, the cached one is yielded; `or` is for its type alone.
        yield plan_view.charts.setdefault(count, chart) or chart
        count += 1
    plan_view.charts[count] = None


def show_refusals(refused: Mapping[str, UserError]) -> None:
    """Draw a warning for each reason why methods have no plan, with their labels. refused : the errors, by label."""
    for reason in dict.fromkeys(str(error) for error in refused.values()):
        labels = [label for label, error in refused.items() if str(error) == reason]
        st.warning(reason, title=f"Left out: {', '.join(labels)}")


def show_notes(plans: Mapping[str, Plan]) -> None:
    """Draw each different note of the plans as a warning, with the labels of the methods whose plan has it."""
    different_notes = dict.fromkeys(note for plan in plans.values() for note in plan.notes)
    for note in different_notes:
        st.warning(note, title=", ".join(label for label, plan in plans.items() if note in plan.notes))


def show_advice(advice: str, key: str, button: str, **options: Any) -> None:
    """Draw a piece of advice in a line with a button that takes it.

    key, button : key and label of the button. options : further arguments of `st.button`.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown(f":material/lightbulb: {advice}", width="stretch")
        st.button(button, key=key, icon=":material/tune:", **options)


def tabs(small: Sequence[Chart], other_charts: Iterator[Chart], key: str) -> dict[str, Callable[[], None]]:
    """Return functions that draw the charts of a plan in two tabs, by the title of the tab.

    Only one of them may be called, that of the open tab, as both take charts from `other_charts`.

    small : the charts that are also drawn small next to the picture. other_charts : the others; "Plan" has the first
    two of them, and "More charts" those of `small`, in full size, then the rest. key : prefix of the charts' keys.
    """
    return {
        "Plan": lambda: draw(list(islice(other_charts, 2)), key),
        "More charts": lambda: draw([*small, *islice(other_charts, 2, None)], f"{key}_more"),
    }


def draw(plan_charts: Sequence[Chart], key: str) -> None:
    """Draw charts two by two, side by side, with the keys `<key>_<number>`.

    A chart without any curve is replaced by its own note on why there is nothing to draw.
    """
    rows = (len(plan_charts) + 1) // 2  # of which the last may have a single chart
    columns = [column for _ in range(rows) for column in st.columns(2, gap="medium")]
    for number, (column, chart) in enumerate(zip(columns, plan_charts, strict=False)):  # a last column may be empty
        with column:
            if chart.figure.data:
                charts.show(chart, f"{key}_{number}")
                continue
            st.subheader(chart.heading, anchor=False)
            for note in chart.figure.layout.annotations:  # as a sentence: a capital at first, a full stop at the end
                text = note.text.replace("<br>", " ")
                st.info(f"{text[0].upper()}{text[1:].rstrip('.')}.", icon=":material/block:")
            st.caption(chart.caption)
