"""What a visitor sees first: the picture of the run, moving, and beside it the one number that it comes to."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import GroupedUpload, UploadedTable
from dpviz.experiments.changes import differences
from dpviz.experiments.summary import PRIVATE, Outcome, outcome, pictured
from dpviz.experiments.trace import Trace
from dpviz.numbers import about, short
from dpviz.plots import run_figures
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.lines import Limit
from dpviz.plots.elements.style import arm_styles
from dpviz.ui import charts, components, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import freshness, results, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.freshness import State
from dpviz.ui.experiment.run import Ready, Run
from dpviz.ui.markdown import plain

T = TypeVar("T")
HEIGHT = 334  # pixels
NAMED = 2  # changes of settings that the line on a picture names
_ALIKE, _FAR = 1.05, 1_000.0  # ratios of two ends that are told as the same, and no longer in numbers
_TINY = 1e-12  # rounding may leave a gap of 1e-16, of either sign, where a method has solved the problem


class Headline(NamedTuple):
    """The one number of a run, what it is, and what it means in a sentence or two."""

    label: str
    value: str
    help: str
    sentence: str


class Face(NamedTuple):
    """Another picture of a page than that of its run: whether it is of earlier settings, and what draws it, which
    returns after how many seconds it is to be drawn again, if it is."""

    pale: bool
    draw: Callable[[], float | None]


class Frame(NamedTuple):
    """What a picture stands in: the settings of the page, None while they make no run; whether they are about a
    visitor's own file; the page's title; what is missing until the file can be used; what is set; the title of the
    face, and whether it is one of the family's further ones; and what makes a face that is no picture of the run."""

    ready: Ready | None
    uploaded: bool
    title: str
    lacks: Sequence[str] = ()
    leads: components.Leads | None = None
    face: str = ""
    further: bool = False
    other: Callable[[], Face] | None = None

    def hides(self, run: Run) -> bool:
        """Whether a run is of the demonstration, and the page is about a file."""
        return self.uploaded and run.returns


Drawn = Callable[[Run, bool], Chart | None]
Told = Callable[[Run, Trace], Headline | None]


def picture(panel: Panel, active: bool, drawn: Drawn, told: Told, frame: Frame) -> None:
    """The picture of the newest run that has one, above it number and sentence of the same run, and its progress. It
    follows a run that is under way; where it belongs to earlier settings it is pale, which a line on it says.

    drawn : makes it, given whether diagnostics may be seen; None if nothing may be shown.
    """
    draw = partial(_draw, panel, drawn, told, frame)
    run_panel.live(panel.page, active, draw, whole=panel.key("whole"), hidden=frame.hides)


def _draw(panel: Panel, make: Drawn, told: Told, frame: Frame) -> float | None:
    run, (state, pale) = run_panel.pictured(panel.page), run_panel.state(panel.page)
    if run is None or frame.hides(run):
        # Under a key of its own, so that the chart of the data before is gone.
        components.awaited(panel.key("hero_own" if frame.uploaded else "hero"))
        with blank():
            st.markdown(_before_run(frame) if frame.uploaded else texts.NOTHING_YET)
            _offer(panel, frame, state)
        return None
    visible, active = results.diagnostics_shown(panel, run.experiment), run.job.active  # it may end meanwhile
    _number(panel, run, (active, visible), told, pale)
    newest, face = run_panel.current(panel.page), None if frame.other is None else frame.other()
    old = pale if face is None else face.pale
    with st.container(key=panel.key(f"on_picture{'_pale' * old}"), horizontal=True, vertical_alignment="center"):
        if pale or old:
            waits = f" {newest.waiting}" if newest is not None and state == "queued" else ""
            if old:
                st.markdown(f"{texts.EARLIER}{_changes(run, frame.ready)}{waits}", width="content")
            if pale:
                _offer(panel, frame, state)
        elif run_panel.only_first(panel.page, run) and not (newest or run).job.active and frame.ready is not None:
            took = about(run.job.computing * frame.ready.times)  # the first repeats: all others follow by click only
            _start(panel, "run_all", f"Run all ({took})", frame.title, frame.ready)
    if face is not None:
        return face.draw()
    of = run.job, visible, frame.face
    last, drawn, growing = st.session_state.get(panel.key("picture"), (None, None, True))
    # A picture that stands still is of the same run, shows no more than may be seen now, and the end.
    if active or growing or drawn is None or last != of:
        drawn = make(run, visible)
        st.session_state[panel.key("picture")] = of, drawn, active
    if drawn is None:
        st.info(texts.NO_CURVE)
        return None
    leads = frame.leads if run.experiment.public else None  # of a file, no former picture stays in the browser
    charts.picture(drawn, panel.key("hero_further" if frame.further else "hero"), pale, panel.page, leads)
    return None


def blank() -> DeltaGenerator:
    """The frame of a picture that is not there yet, for words in its middle."""
    return st.container(border=True, height=HEIGHT, horizontal_alignment="center", vertical_alignment="center")


def _before_run(frame: Frame) -> str:
    """What is missing until a file can be used, or what a run on it releases."""
    if frame.lacks:
        return f"Before Run: {'; '.join(frame.lacks)}."
    return texts.UNSET if frame.ready is None else f"Press Run: {frame.ready.releases}."


def _offer(panel: Panel, frame: Frame, state: State) -> None:
    """Run, on the picture, where the settings have none and none is on its way."""
    ready = frame.ready
    if ready is None or ready.too_much or state == "queued":
        return
    _start(panel, "run_these", "Run these settings", frame.title, ready)


def _changes(run: Run, ready: Ready | None) -> str:
    """What has been changed since a run, in a sentence."""
    if ready is None:
        return f" {texts.UNSET}"
    before, now = run.experiment, ready.experiment
    if before.replicates == freshness.FIRST:  # of all repeats, perhaps
        before = before.replaced(replicates=now.replicates)
    changes = [plain(part.describe()) for part in differences(before, now)]
    more = f"; and {len(changes) - NAMED} more" if len(changes) > NAMED else ""
    return f" {'; '.join(changes[:NAMED])}{more}." if changes else ""


def _start(panel: Panel, name: str, label: str, title: str, ready: Ready) -> None:
    """A button that starts a run. No callback: Streamlit would keep that, and with it the rows of a file."""
    if st.button(label, key=panel.key(name), icon=":material/play_arrow:"):
        run_panel.start(panel.page, title, ready)
        st.rerun()


def _number(panel: Panel, run: Run, now: tuple[bool, bool], told: Told, pale: bool) -> None:
    """What the run of the picture comes to, in a number and a sentence. now : whether it is under way, and whether
    diagnostics may be seen."""
    active, diagnostics = now
    with st.container(key=panel.key("number_pale" if pale else "number")):
        number, words = st.columns([3, 8], gap="small", vertical_alignment="center")
    found = None if run.job.trace is None else told(run, run.job.trace.visible(diagnostics))
    if diagnostics and not active and not run.returns and run.has_data:
        found = _once(panel.key("accuracy"), run, lambda: accuracy(run)) or found  # a pass over the rows
    if found is not None:
        number.metric(f"{'Old settings: ' * pale}{found.label}", found.value, help=found.help)
    if active:
        return
    few = run_panel.only_first(panel.page, run)
    first = f"**First {few[0]} of {few[1]} runs.** " if few else ""
    if found is None:
        words.markdown(first + texts.ENDED)
    else:
        moved = _once(panel.key("moved"), run, partial(_moved, panel, run, found))
        words.markdown(f"{first}{found.sentence} {moved}")


def _once(key: str, run: Run, make: Callable[[], T]) -> T:
    """What `make` says of a run that has ended, made once: the page is drawn again and again."""
    job, made = st.session_state.get(key, (None, None))
    if job is not run.job:
        made = make()
        st.session_state[key] = run.job, made
    return made


def _moved(panel: Panel, run: Run, found: Headline) -> str:
    """Which methods with privacy the last change of a setting has moved, where it left the number as it was."""
    ended = outcome(run.job.trace) if run.job.trace is not None and run.experiment.public else None
    if ended is None:  # each run on a file has noise of its own
        return ""
    ends = {label: ended.runs[label] for label in (ended.best, *dict(ended.others))}
    now, key = (run.experiment.replaced(replicates=1), found[:2], ends), panel.key("ended")
    last, before = st.session_state.get(key, (now, now))
    before = before if last[0] == now[0] else last
    st.session_state[key] = now, before
    changes, old = differences(before[0], now[0]), before[2]
    if len(changes) != 1 or before[1] != now[1] or old.keys() != ends.keys():
        return ""
    moved = [label for label, new in ends.items() if not np.array_equal(new[: len(old[label])], old[label][: len(new)])]
    if len(moved) == len(ends):
        return ""
    return f"{changes[0].label} moved {'only ' * bool(moved)}{', '.join(moved) or 'none of the methods'}."


def curves(
    run: Run, diagnostics: bool, name: str = "", limits: Sequence[Limit] = (), most: int = PRIVATE
) -> Chart | None:
    """The curves of the most telling metric, or of that of this name; None if none may be shown.

    most : private methods that are drawn, those that end lowest.
    """
    if run.job.trace is None:
        return None
    trace = run.job.trace.visible(diagnostics)
    found = results.metrics(trace)
    metric = found.get(name) or next(iter(found.values()), None)
    if metric is None:
        return None
    few = trace.only(pictured(trace, metric.name, most))
    looks = arm_styles(run.experiment.arms)
    figure = run_figures.convergence(few, metric.name, looks, limits=limits, height=HEIGHT)
    privacy = results.privacy(metric, few, run.experiment)
    left_out = len(trace.lanes) - len(few.lanes)
    others = f" {left_out} more under Results." if left_out > 0 else ""
    caption = f"{metric.label}. {explain.spread(run.experiment.replicates)}{others} {privacy}"
    alt = f"{metric.label} by step, one line per method"
    return Chart(figure, metric.label, alt, caption, provenance(few.statuses(metric).values()))


def accuracy(run: Run) -> Headline | None:
    """The share of a visitor's own rows that the best private model predicts right, next to that of the more frequent
    class. Reads the raw rows. None for models that predict no classes, and once the file is gone."""
    problem, trace = run.experiment.problem, run.job.trace
    data = problem.dataset
    if trace is None or not run.has_data or not isinstance(data, UploadedTable | GroupedUpload):
        return None
    if data.target is None or (isinstance(data, UploadedTable) and data.target_range is not None):
        return None
    labels = data.load(run.tables).labels
    shares = {
        label: float(np.median(right))
        for label, lane in trace.lanes.items()
        if "x" in lane.output and (right := run.problem.correct(lane.output["x"])) is not None
    }
    private = {label: share for label, share in shares.items() if trace.lanes[label].private}
    if not private:
        return None
    best = max(private, key=private.__getitem__)
    yes = float((labels > 0).mean())
    guess = max(yes, 1 - yes)
    answer = f"{'always' if yes >= 0.5 else 'never'} answering {plain(data.positive)}"
    gain = private[best] - guess
    if gain <= 0:
        words = f"**No better than {answer}**, {_percent(guess)}."
    elif gain <= math.sqrt(guess * (1 - guess) / len(labels)):  # one standard error of a share of so many rows
        words = f"**Hardly better than {answer}**, {_percent(guess)}."
    else:
        words = f"**{short(100 * gain)} points better than {answer}**, {_percent(guess)}."
    floor = max((share for label, share in shares.items() if label not in private), default=None)
    words += "" if floor is None else f" Without privacy: {_percent(floor)}."
    help = "Share of your rows whose class its model predicts: median over the repeats, of the method best at it."
    return Headline(f"Accuracy of {best}", _percent(private[best]), help, f"{words} {explain.diagnostic(1, False)}")


def _percent(share: float) -> str:
    return f"{short(100 * share)} %"


def lowest(run: Run, trace: Trace) -> Headline | None:
    """Where the method ends, or is, that ends lowest; None if there is no number of which less is better."""
    found = outcome(trace)
    if found is None:
        return None
    help = f"{found.metric.label}: median over the repeats."
    verb = "is" if run.job.active else "ends"
    return Headline(f"{found.best} {verb} at", _value(found, found.end), help, sentence(found))


def _value(found: Outcome, value: float) -> str:
    """A value of the metric; of a gap, what may be rounding is about 0."""
    return "≈ 0" if found.metric.gap and abs(value) < _TINY else short(value)


def sentence(found: Outcome) -> str:
    """Return sentences that compare the best end with the start, the next method and no privacy. Only gaps, whose
    smallest value is 0, have ratios; a difference that may be chance between the repeats is called that."""
    parts = [_since(found)]
    if found.others:
        parts.append(_beside(found, *found.others[0]))
    if found.floor is not None:
        parts.append(_above(found, found.floor))
    return " ".join(filter(None, parts))


def _since(found: Outcome) -> str:
    """Return a sentence that compares the best end with the start."""
    if found.end >= found.start and (found.start > 0 or not found.metric.gap):
        return "**No lower than where it started**: at this budget the noise wins."
    if not found.metric.gap:
        return f"Down from {short(found.start)}, where it started."
    return f"**{short(100 * max(found.share, 0.0))} %** of where it started." if found.start > 0 else ""


def _beside(found: Outcome, label: str, other: float) -> str:
    """Return a sentence that compares the best end with `other`, that of the method `label`."""
    if _alike(found, other):
        return f"About as close as {label}." if found.metric.gap else f"{label} ends as low."
    if not found.metric.gap:
        said = f"{label} ends at {short(other)}"
    elif found.end <= 0 or other > _FAR * found.end:
        said = f"{label} ends far above, at {short(other)}"
    else:
        said = f"{short(other / found.end)} times closer than {label}"
    return f"{said}{_doubt(found, label)}."


def _above(found: Outcome, floor: float) -> str:
    """Return a sentence that compares the best end with `floor`, the best end without privacy."""
    without = _value(found, floor)
    if _alike(found, floor):
        return f"As low as without privacy, {without}."
    if doubt := _doubt(found, found.reference):
        return f"Without privacy: {without}{doubt}."
    if found.end < floor:
        return f"Lower than without privacy, {without}."
    return f"Without privacy, at best: {without}."


def _alike(found: Outcome, other: float) -> bool:
    """Return whether the best end and another one count as equal: gaps nearly so, losses to the last digit shown."""
    if not found.metric.gap:
        return short(found.end) == short(other)
    least, most = sorted((found.end, other))
    return most <= max(_ALIKE * least, least + _TINY)


def _doubt(found: Outcome, label: str) -> str:
    """That the difference to an arm may be chance, if it may."""
    repeats = min(len(found.runs[arm]) for arm in (found.best, label))
    many = "one repeat" if repeats == 1 else f"{repeats} repeats"
    return f"; with {many} the difference may be chance" if found.chance(found.best, label) else ""
