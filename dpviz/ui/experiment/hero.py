"""The part of a family's page that a visitor sees first: the picture of a run, and above it one number with a sentence.

The picture grows while its run is under way. When settings have changed, it stays until the next run has curves, and is
pale meanwhile. Another face of it, for problems on public data that define a plane, is the cloud: the repeats of each
method as dots that move in that plane, step by step.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import GroupedUpload, UploadedTable
from dpviz.experiments.changes import differences
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import quantiles, spent_curve
from dpviz.experiments.summary import MAX_PRIVATE, HeadlineResult, arms_to_draw, headline_result
from dpviz.experiments.trace import Trace
from dpviz.numbers import about, short, short_up
from dpviz.plots import clouds, run_figures
from dpviz.plots.clouds import Animation, Ground, Walk
from dpviz.plots.elements import style
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.lines import Limit
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.problems.base import Metric, Plane
from dpviz.ui import charts, components, explain
from dpviz.ui.appearance import theme, type_scale
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.run import MakeChart, Run, StartableExperiment, State
from dpviz.ui.markdown import escape_name

# ---------------------------------------------------------------------------------------------------------------- cloud

PANELS = 3  # largest number of methods in the picture, each in a panel of its own


class CloudPage(Protocol):
    """The part of a family's page that knows the plane in which the runs move. `FamilyPage` has the details."""

    def ground(self, run: Run, x: FixedAxis, y: FixedAxis, /) -> Ground | None:
        """Return the objective to draw behind the dots, on axes x and y or its own; None if it cannot be drawn."""

    def region(self, run: Run, arm: Arm, /) -> tuple[np.ndarray, np.ndarray] | None:
        """Return centres and half axes, (T+1, 2) each, of ellipses in which theory expects an arm's repeats after each
        step; None without such a theory."""


def show_cloud(panel: Panel, run: Run, trace: Trace, page: CloudPage) -> bool:
    """Draw the repeats of at most PANELS private methods, those that end lowest, as an animation with a caption.

    Draws nothing and returns False if the problem has no plane, as on a user's file, or no method has moved.
    The run keeps the finished film, because packing it takes long and the page is drawn again often.

    run : one that has ended, as the film is not made again. trace : the part of its results that may be shown.
    """
    plane = run.experiment.problem.plane
    moving = [label for label, arm_trace in trace.arm_traces.items() if arm_trace.private and len(arm_trace.cloud) > 1]
    if plane is None or not moving:
        return False
    # All that a film depends on, besides its run: the colour of the mark "not private", and the scale of type.
    appearance = style.NOT_PRIVATE[theme()], type_scale()
    if appearance not in run.films:
        metric = next(iter(results.metrics(trace).values()), None)  # the most telling one
        methods = moving
        if len(moving) > PANELS:
            lowest = () if metric is None else arms_to_draw(trace.only(moving), metric.name, PANELS)
            methods = list(lowest or moving[:PANELS])  # none is lowest if no method ends with a number
        animation = _FilmMaker(run, trace, metric, page).animation(plane, methods)
        sentences = _describe(run, animation)
        if len(methods) < len(moving):
            sentences.append(texts.CLOUD_LEFT_OUT)
        sentences.append(_privacy(run, trace, animation, metric))
        run.films[appearance] = clouds.animation_bytes(animation, *appearance), " ".join(sentences)
    film, caption = run.films[appearance]
    components.draw_cloud(panel.key("hero_cloud"), film)
    st.caption(caption)
    return True


@dataclass(frozen=True)
class _FilmMaker:
    """The maker of a run's animation.

    metric : the quantity that the caption of each panel states at each step, next to the privacy spent; None for none.
    In the methods, `steps` (k,) are those of the film.
    """

    run: Run
    trace: Trace
    metric: Metric | None
    page: CloudPage

    def animation(self, plane: Plane, labels: Sequence[str]) -> Animation:
        """Return the animation of the repeats of the methods `labels` in a plane, all on the same axes."""
        recorded_steps = [steps for steps, _positions in map(self.trace.cloud, labels)]
        steps = clouds.timeline(recorded_steps)  # at most MAX_STEPS of them
        walks = [self.walk(label, steps) for label in labels]
        x, y = clouds.axes_around(plane.titles, [walk.points for walk in walks], plane.corners)
        ground = self.page.ground(self.run, x, y)
        if ground is not None:
            x, y = clouds.axes_of_ground(plane.titles, ground)  # it may show another part of the plane
        metric = "" if self.metric is None else _in_sentence(self.metric)
        return Animation(steps, walks, x, y, metric, ground, plane.corners)

    def walk(self, label: str, steps: np.ndarray) -> Walk:
        """Return the positions of a method's repeats at `steps`, those without privacy, and the method's captions."""
        run, trace = self.run, self.trace
        (arm,) = (arm for arm in run.experiment.arms if arm.label == label)
        reference_label = _label_without_privacy(trace, run.experiment.arms, arm)
        reference_points = np.empty((len(steps), 0, 2))
        if reference_label:
            # (k, R, 2), of R repeats: each stays at its last record until the next one.
            reference_points = clouds.values_at_steps(*trace.cloud(reference_label), steps)
            first_repeat = reference_points[:, :1]
            if (reference_points == first_repeat).all():  # as without noise and batches: one dot is enough
                reference_points = first_repeat
        region = self.page.region(run, arm)
        if region is not None:
            each_step = np.arange(len(region[0]))  # 0..T; after step T, the ellipse stays
            centres, half_axes = (clouds.values_at_steps(each_step, step_values, steps) for step_values in region)
            region = centres, half_axes
        return Walk(
            label,
            style.arm_styles(run.experiment.arms)[label].color,
            points=clouds.values_at_steps(*trace.cloud(label), steps),
            last=trace.arm_traces[label].iterations[-1],
            reference_points=reference_points,
            reference_label=reference_label,
            region=region,
            median=self.medians(label, steps),
            spent=self.spent(label, steps),
        )

    def medians(self, label: str, steps: np.ndarray) -> list[str]:
        """Return the median of the metric over the repeats at each of `steps`, as text; [] if it is not recorded."""
        if self.metric is None:
            return []
        iterations, values = self.trace.series(label, self.metric.name)
        if not len(iterations):
            return []
        medians = quantiles(values)[:, 1]  # the columns are the 10 %, 50 % and 90 % quantiles
        return [short(median) for median in clouds.values_at_steps(iterations, medians, steps)]

    def spent(self, label: str, steps: np.ndarray) -> list[str]:
        """Return the privacy that a method has spent at each of `steps`, such as "ε = 0.5 spent"; [] if not finite."""
        currency = self.run.currency
        spent_after = spent_curve(self.trace, label, self.run.plans[label], currency)  # (T+1,): after steps 0..T
        if not np.isfinite(spent_after).all():
            return []
        last_step = self.trace.arm_traces[label].iterations[-1]
        symbol = f"{UNITS[currency].symbol}\u00a0="  # no-break spaces: no line ends before the number
        until_last_step = np.minimum(steps, last_step)  # a method that has ended spends no more
        return [f"{symbol}\u00a0{short_up(value)} spent" for value in spent_after[until_last_step]]


def _label_without_privacy(trace: Trace, arms: Sequence[Arm], arm: Arm) -> str:
    """Return the label of the reference with the update rule of `arm` but no noise; "" if it has recorded no positions.

    Several references may share the class of an algorithm; the one of the same rule is drawn in the arm's colour.
    """
    styles = style.arm_styles(arms)
    for other in arms:
        is_same_rule = (
            type(other.algorithm) is type(arm.algorithm) and styles[other.label].color == styles[arm.label].color
        )
        has_positions = other.label in trace.arm_traces and trace.arm_traces[other.label].cloud
        if other.reference and is_same_rule and has_positions:
            return other.label
    return ""


def _in_sentence(metric: Metric) -> str:
    """Return the label of a metric without its formula, for the inside of a sentence."""
    label = re.sub(r" (F\(|f\(|‖)[^,]*", "", metric.label)  # a formula begins like this, and ends at a comma
    return label[0].lower() + label[1:]


def _describe(run: Run, animation: Animation) -> list[str]:
    """Return the sentences of the caption that explain dots, axes, ellipses and shades, as far as these are drawn."""
    sentences = [texts.CLOUD_MOVES]
    if animation.corners:  # a polygon is drawn without axes, so their titles are in the caption
        sentences.append(f"{animation.x.title}. {animation.y.title}.")
    if any(walk.region is not None for walk in animation.walks):
        sentences.append(texts.CLOUD_REGION)
    if animation.ground is not None:  # in more than two dimensions the plane is only a section
        sentences.append(texts.CLOUD_SECTION if run.experiment.problem.facts().d > 2 else texts.CLOUD_GROUND)
    return sentences


def _privacy(run: Run, trace: Trace, animation: Animation, metric: Metric | None) -> str:
    """Return sentences that name the guarantee of the picture, and its parts that no guarantee covers.

    metric : the quantity in the captions of the panels, None if they have none.
    """
    experiment = run.experiment
    raw_parts = []
    if any(walk.reference_label for walk in animation.walks):  # repeats of a method without privacy
        raw_parts.append("the grey rings")
    if animation.raw:  # the objective behind the dots follows from the data
        raw_parts.append("the shades")
    if metric is not None:
        in_panels = trace.only([walk.label for walk in animation.walks])
        if "not private" in in_panels.privacy_by_arm(metric).values():
            raw_parts.append(f"the {animation.metric}")
    released = explain.release_sentence(experiment, experiment.replicates, len(animation.walks))
    if not raw_parts:
        return released
    *first_parts, last_part = raw_parts
    parts = f"{', '.join(first_parts)} and {last_part}" if first_parts else last_part
    return f"{released} **Not private**, since they read the raw data, which are public here: {parts}."


# --------------------------------------------------------------------------------------------------- picture and number

T = TypeVar("T")
HEIGHT = 334  # of the picture, in pixels
MAX_NAMED = 2  # largest number of changed settings that the line on a pale picture names
_ALIKE = 1.05  # largest ratio of two final values that the sentence calls about the same
_FAR = 1_000.0  # smallest ratio of two final values that the sentence no longer gives as a number
# Largest gap that may be rounding, with room: a method that has solved the problem leaves about 1e-16, of either sign.
_TINY = 1e-12


class Headline(NamedTuple):
    """The one number of a run: its label, its value and its help, and a sentence or two on what it means."""

    label: str
    value: str
    help: str
    sentence: str


class Face(NamedTuple):
    """A picture of a page that takes the place of its run's curves, such as the values along the budget.

    pale : true if it belongs to earlier settings. draw : draws it, and returns the seconds until it is to be drawn
    again, or None if it does not change by itself.
    """

    pale: bool
    draw: Callable[[], float | None]


class Frame(NamedTuple):
    """Everything that a page says about the place in which its picture is drawn.

    ready : the present settings, None while they make no run. uploaded : true if they are about a visitor's own file;
    missing_parts : texts that name what is missing until that file can be used. title : of the page.
    leads : values of the controls above the picture, with which the browser may keep former pictures.
    face : title of the chosen face. further : true if it is one of the family's further faces. other : returns the
    `Face` that is drawn in place of the run's curves; None if the curves, or a further face, are drawn.
    """

    ready: StartableExperiment | None
    uploaded: bool
    title: str
    missing_parts: Sequence[str] = ()
    leads: components.Leads | None = None
    face: str = ""
    further: bool = False
    other: Callable[[], Face] | None = None

    def hides(self, run: Run) -> bool:
        """Return true if a run must not be shown, because only one of it and the page is about a visitor's file."""
        return self.uploaded == run.is_restorable


MakeNumber = Callable[[Run, Trace], Headline | None]  # from a run, and its results that may be seen, to its number


def picture(panel: Panel, active: bool, make_chart: MakeChart, make_number: MakeNumber, frame: Frame) -> None:
    """Draw the picture of the newest run that has one, with number and sentence of that run above, and its progress.

    While a run is under way, all of this is drawn again and again. A picture of earlier settings is pale, and a line on
    it says so.

    active : true if a run is under way. make_chart : returns the chart of a run, None if it may not be shown.
    make_number : returns its number, None if it has none.
    """
    draw = partial(_draw, panel, make_chart, make_number, frame)
    run_panel.show_live(panel.page, active, draw, hides_progress=frame.hides)


def _draw(panel: Panel, make_chart: MakeChart, make_number: MakeNumber, frame: Frame) -> float | None:
    """Draw number, line and picture once; return the seconds until a face wants to be drawn again, or None.

    The arguments are those of `picture`.
    """
    run = run_panel.pictured(panel.page)
    state, pale = run_panel.picture_state(panel.page)
    if run is None or frame.hides(run):
        # The browser loads the plotting library meanwhile. Where a run is hidden, the key is not that of its chart, so
        # that the browser removes the chart.
        components.figure_placeholder(panel.key("hero" if run is None else "hero_own"))
        text = texts.NOTHING_YET
        if frame.missing_parts:  # of a visitor's file
            text = f"Before Run: {'; '.join(frame.missing_parts)}."
        elif frame.uploaded:
            text = texts.UNSET if frame.ready is None else f"Press Run: {frame.ready.releases}."
        with blank():
            st.markdown(text)
            _offer_button(panel, frame, state)
        return None
    diagnostics = results.diagnostics_shown(panel, run.experiment)
    active = run.job.active  # read once: the run may end while this is drawn
    _draw_number(panel, run, active, diagnostics, make_number, pale)
    newest = run_panel.newest_run(panel.page)  # it may not have curves yet, and then `run` is an earlier one
    face = None if frame.other is None else frame.other()
    # `pale` is about the run, and so about number and sentence; a face in place of its curves may be older or newer.
    is_picture_old = pale if face is None else face.pale
    key = panel.key("on_picture_pale" if is_picture_old else "on_picture")
    with st.container(key=key, horizontal=True, vertical_alignment="center"):
        if is_picture_old:
            waits = f" {newest.waiting_text}" if newest is not None and state == "queued" else ""
            st.markdown(f"{texts.EARLIER}{_changes(run, frame.ready)}{waits}", width="content")
        is_idle = not (newest or run).job.active
        if pale:
            _offer_button(panel, frame, state)
        elif run_panel.partial_repeats(panel.page, run) and is_idle and not is_picture_old and frame.ready is not None:
            # The run had the first repeats alone, and all of them would take too long to begin by themselves.
            duration = about(run.job.computing * frame.ready.work_ratio)
            _start_button(panel, "run_all", f"Run all ({duration})", frame.title, frame.ready)
    if face is not None:
        return face.draw()
    # The last chart is used again if it shows the end of the same run, with as much as may be seen now.
    subject = run.job, diagnostics, frame.face
    last_subject, chart, was_active = st.session_state.get(panel.key("picture"), (None, None, True))
    if active or was_active or chart is None or last_subject != subject:
        chart = make_chart(run, diagnostics)
        st.session_state[panel.key("picture")] = subject, chart, active
    if chart is None:
        st.info(texts.NO_CURVE)
        return None
    leads = frame.leads if run.experiment.public else None  # no former picture of a file stays in the browser
    chart_key = panel.key("hero_further" if frame.further else "hero")
    charts.show_captioned(chart, chart_key, pale, group=panel.page, leads=leads)
    return None


def blank() -> DeltaGenerator:
    """Return an empty frame of the size of a picture, for a text in its middle while there is no picture."""
    return st.container(border=True, height=HEIGHT, horizontal_alignment="center", vertical_alignment="center")


def _offer_button(panel: Panel, frame: Frame, state: State) -> None:
    """Draw a button on the picture that runs the present settings.

    Draw none if these make no run, or one that is in the queue or needs too much memory.
    """
    ready = frame.ready
    if ready is None or ready.too_much or state == "queued":
        return
    _start_button(panel, "run_these", "Run these settings", frame.title, ready)


def _changes(run: Run, ready: StartableExperiment | None) -> str:
    """Return a sentence, after a blank, on the settings that have changed since a run; "" if none has.

    ready : the present settings, None while they make no run.
    """
    if ready is None:
        return f" {texts.UNSET}"
    old, new = run.experiment, ready.experiment
    if old.replicates == run_panel.FIRST_REPEATS:  # a run of the first repeats may be a part of one with all repeats
        old = old.replaced(replicates=new.replicates)
    changes = [escape_name(change.describe()) for change in differences(old, new)]
    more = f"; and {len(changes) - MAX_NAMED} more" if len(changes) > MAX_NAMED else ""
    return f" {'; '.join(changes[:MAX_NAMED])}{more}." if changes else ""


def _start_button(panel: Panel, name: str, label: str, title: str, ready: StartableExperiment) -> None:
    """Draw a button that starts the run of `ready`.

    It has no callback, since Streamlit would keep it in memory, and with it the rows of a file.
    """
    if st.button(label, key=panel.key(name), icon=":material/play_arrow:"):
        run_panel.start(panel.page, title, ready)
        st.rerun()


def _draw_number(panel: Panel, run: Run, active: bool, diagnostics: bool, make_number: MakeNumber, pale: bool) -> None:
    """Draw the number of the picture's run and, when the run has ended, a sentence on what the number means.

    active : true if the run is under way. diagnostics : true if results that read raw data may be seen. pale : true if
    the run had earlier settings.
    """
    with st.container(key=panel.key("number_pale" if pale else "number")):
        number_column, text_column = st.columns([3, 8], gap="small", vertical_alignment="center")
    headline = None if run.job.trace is None else make_number(run, run.job.trace.visible(diagnostics))
    is_on_file = not run.experiment.public
    if is_on_file and diagnostics and not active and run.has_data:  # the accuracy, if known, tells more
        headline = _computed_once(panel.key("accuracy"), run, lambda: accuracy(run)) or headline
    if headline is not None:
        label = f"Old settings: {headline.label}" if pale else headline.label
        number_column.metric(label, headline.value, help=headline.help)
    if active:
        return
    counts = run_panel.partial_repeats(panel.page, run)
    first_repeats = "**First {} of {} runs.** ".format(*counts) if counts else ""
    if headline is None:
        text_column.markdown(first_repeats + texts.ENDED)
    else:
        change = ""
        if run.job.state == "done":  # one that was stopped has no final number to compare with
            change = _computed_once(panel.key("moved"), run, partial(_change_sentence, panel, run, headline))
        text_column.markdown(f"{first_repeats}{headline.sentence} {change}")


def _computed_once(key: str, run: Run, compute: Callable[[], T]) -> T:
    """Return the result of `compute` for a run that has ended, from the session if this run's was computed before.

    key : in the session, of the last result and its job.
    """
    job, result = st.session_state.get(key, (None, None))
    if job is not run.job:
        result = compute()
        st.session_state[key] = run.job, result
    return result


class _End(NamedTuple):
    """The end of a run on public data.

    experiment : with one repeat, so that runs of the first and of all repeats are of the same settings.
    number : label and value of the page's number. values : (R,) last values of the R repeats of each private method.
    """

    experiment: Experiment
    number: tuple[str, str]
    values: Mapping[str, np.ndarray]


def _change_sentence(panel: Panel, run: Run, headline: Headline) -> str:
    """Return a sentence with the page's number before the last change of settings.

    If the number is the same as before, and one setting has changed, the sentence instead names the private methods
    whose values have changed; it is "" if all have. It is also "" on a file, where each run has noise of its own.
    """
    result = headline_result(run.job.trace) if run.job.trace is not None and run.experiment.public else None
    if result is None:
        return ""
    private_methods = [result.best, *(label for label, _ in result.others)]
    values = {label: result.runs[label] for label in private_methods}
    new = _End(run.experiment.replaced(replicates=1), (headline.label, headline.value), values)
    # The session holds the end that was drawn last, and the last end with other settings than that, if any.
    last, old = st.session_state.get(panel.key("ended"), (new, new))
    if last.experiment != new.experiment:  # the settings have changed since
        old = last
    st.session_state[panel.key("ended")] = new, old
    changes = differences(old.experiment, new.experiment)
    if old.number != new.number and changes:
        old_label, old_value = old.number
        return f"Before: {old_value}." if old_label == headline.label else f"Before: {old_label} {old_value}."
    if len(changes) != 1 or old.values.keys() != values.keys():
        return ""
    moved = []
    for label, new_values in values.items():
        old_values = old.values[label]
        common = min(len(new_values), len(old_values))  # one of the runs may have had the first repeats alone
        if not np.array_equal(new_values[:common], old_values[:common]):
            moved.append(label)
    if not moved:
        return f"{changes[0].label} moved none of the methods."
    return "" if len(moved) == len(values) else f"{changes[0].label} moved only {', '.join(moved)}."


def curves(
    run: Run, diagnostics: bool, name: str = "", limits: Sequence[Limit] = (), max_private: int = MAX_PRIVATE
) -> Chart | None:
    """Return the chart with the curves of a run in one metric; None if no metric may be shown.

    name : of the metric; if empty or not recorded, the most telling one is drawn. diagnostics : true if metrics that
    read raw data may be shown. limits : horizontal lines with a label. max_private : the largest number of private
    methods that are drawn, those that end lowest.
    """
    if run.job.trace is None:
        return None
    trace = run.job.trace.visible(diagnostics)
    metrics = results.metrics(trace)
    if not metrics:
        return None
    metric = metrics.get(name) or next(iter(metrics.values()))  # the first is the most telling one
    selection = trace.only(arms_to_draw(trace, metric.name, max_private))  # with the lowest method without privacy
    styles = arm_styles(run.experiment.arms)
    figure = run_figures.convergence(selection, metric.name, styles, limits=limits, height=HEIGHT)
    privacy = results.privacy_sentence(metric, selection, run.experiment)
    left_out = len(trace.arm_traces) - len(selection.arm_traces)
    others = f" {left_out} more method{'s' * (left_out > 1)} under Results." if left_out > 0 else ""
    caption = f"{metric.label}. {explain.spread_sentence(run.experiment.replicates)}{others} {privacy}"
    alt = f"{metric.label} by step, one line per method"
    return Chart(figure, metric.label, alt, caption, provenance(selection.privacy_by_arm(metric).values()))


def accuracy(run: Run) -> Headline | None:
    """Return the share of a visitor's own rows whose class the best private model predicts, with a sentence about it.

    The sentence compares it with always answering the more frequent class. Both read the raw rows, so the number is a
    diagnostic. Return None for models that predict no classes, and once the file is removed.
    """
    problem, trace = run.experiment.problem, run.job.trace
    data = problem.dataset
    if trace is None or not run.has_data or not isinstance(data, UploadedTable | GroupedUpload):
        return None
    if data.target is None or (isinstance(data, UploadedTable) and data.target_range is not None):
        return None  # losses of strategies, or a target of numbers: no classes
    labels = data.load(run.tables).labels  # (n,): 1 in rows of the class `data.positive`, -1 in others
    shares: dict[str, float] = {}  # of the rows that a method's models predict right: median over the repeats
    for label, arm_trace in trace.arm_traces.items():
        # "x" has the released models (R, d) of the repeats; None if the problem has no classes to predict.
        correct = run.problem.correct_share(arm_trace.output["x"]) if "x" in arm_trace.output else None
        if correct is not None:
            shares[label] = float(np.median(correct))
    private = {label: share for label, share in shares.items() if trace.arm_traces[label].private}
    if not private:
        return None
    best = max(private, key=private.__getitem__)
    positive_share = float((labels > 0).mean())
    guess = max(positive_share, 1 - positive_share)  # accuracy of a constant answer
    answer = f"{'always' if positive_share >= 0.5 else 'never'} answering {escape_name(data.positive)}"
    gain = private[best] - guess
    standard_error = math.sqrt(guess * (1 - guess) / len(labels))  # of the share `guess`, in a sample of as many rows
    if gain <= 0:
        better = "No better"
    elif gain <= standard_error:
        better = "Hardly better"
    else:
        better = f"{short(100 * gain)} points better"
    comparison = f"**{better} than {answer}**, {_percent(guess)}."
    references = [share for label, share in shares.items() if label not in private]
    if references:
        comparison += f" Without privacy: {_percent(max(references))}."
    help = "Share of your rows whose class its model predicts: median over the repeats, of the method best at it."
    return Headline(
        f"Accuracy of {best}",
        _percent(private[best]),
        help,
        f"{comparison} {explain.diagnostic_sentence(replicates=1, public=False)}",
    )


def _percent(share: float) -> str:
    """Return a share in [0, 1] as percent."""
    return f"{short(100 * share)} %"


def lowest_headline(run: Run, trace: Trace) -> Headline | None:
    """Return the final, or while the run goes on the latest, value of the private method that has the lowest.

    Return None if the run has recorded no metric of which less is better.
    """
    result = headline_result(trace)
    if result is None:
        return None
    help = f"{result.metric.label}: median over the repeats."
    verb = "ends" if run.job.state == "done" else "is"  # also of one that was stopped
    return Headline(f"{result.best} {verb} at", _value(result, result.end), help, sentence(result))


def _value(result: HeadlineResult, value: float) -> str:
    """Return a value of the metric as text; a gap so small that it may be rounding reads "≈ 0"."""
    return "≈ 0" if result.metric.gap and abs(value) < _TINY else short(value)


def sentence(result: HeadlineResult) -> str:
    """Return sentences that compare the lowest final value of a private method with three others.

    These are the value at the start, the final value of the next method, and the lowest without privacy. A ratio is
    given only for gaps, whose smallest value is 0. A difference that may be chance between the repeats is called that.
    """
    sentences = [_against_start(result)]
    if result.others:
        (next_label, next_value), *_ = result.others
        sentences.append(_against_next(result, next_label, next_value))
    if result.floor is not None:  # the lowest value without privacy
        sentences.append(_against_reference(result, result.floor))
    return " ".join(filter(None, sentences))


def _against_start(result: HeadlineResult) -> str:
    """Return a sentence that compares the lowest final value with the value at the start."""
    if result.metric.gap and result.start <= 0:  # it started at the smallest gap, 0 up to rounding: no end is lower
        return ""
    if result.end >= result.start:
        return "**No lower than where it started**."
    if not result.metric.gap:
        return f"Down from {short(result.start)}, where it started."
    share = max(result.share, 0.0)  # end / start; rounding may leave a negative gap
    return f"**{short(100 * share)} %** of where it started."


def _against_next(result: HeadlineResult, label: str, other: float) -> str:
    """Return a sentence that compares the lowest final value with `other`, the final value of the method `label`."""
    if _alike(result, other):
        return f"About as close as {label}." if result.metric.gap else f"{label} ends as low."
    if not result.metric.gap:
        comparison = f"{label} ends at {short(other)}"
    elif result.end <= 0 or other > _FAR * result.end:  # a gap of 0, or below by rounding, has no ratio
        comparison = f"{label} ends far above, at {short(other)}"
    else:
        comparison = f"{short(other / result.end)} times closer than {label}"
    return f"{comparison}{_doubt(result, label)}."


def _against_reference(result: HeadlineResult, floor: float) -> str:
    """Return a sentence that compares the lowest final value with `floor`, the lowest one without privacy."""
    reference = _value(result, floor)
    if _alike(result, floor):
        return f"As low as without privacy, {reference}."
    doubt = _doubt(result, result.reference)
    if doubt:
        return f"Without privacy: {reference}{doubt}."
    if result.end < floor:
        return f"Lower than without privacy, {reference}."
    return f"Without privacy, at best: {reference}."


def _alike(result: HeadlineResult, other: float) -> bool:
    """Return true if the lowest final value and another one count as equal.

    Gaps do if their ratio is at most _ALIKE or their difference may be rounding; losses, if they read the same.
    """
    if not result.metric.gap:
        return short(result.end) == short(other)
    lower, upper = sorted((result.end, other))
    return upper <= max(_ALIKE * lower, lower + _TINY)


def _doubt(result: HeadlineResult, label: str) -> str:
    """Return the end of a sentence which says that the difference to the method `label` may be chance; "" if not."""
    if not result.may_be_chance(result.best, label):  # a test of the final values
        return ""
    repeats = min(len(result.runs[arm]) for arm in (result.best, label))
    count = "one repeat" if repeats == 1 else f"{repeats} repeats"
    return f"; with {count} the difference may be chance"
