"""The page of private tuning: the choice of the tuned model and its data, the picture, plan and results."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import BundledTable, DatasetSpecification, UniformLinear, UniformLogistic
from dpviz.datasets.users import UserFacts
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import spent_curve
from dpviz.experiments.summary import headline_result
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families import bayesian_optimization
from dpviz.families.bayesian_optimization import algorithms, figures, presets, texts
from dpviz.families.bayesian_optimization.algorithms import BATCH_SIZE, NOISY_NORM, TRAININGS, Gibo
from dpviz.families.bayesian_optimization.forecast import Forecast, forecast
from dpviz.families.bayesian_optimization.posterior_slice import POINTS, PosteriorSlice, slice_along
from dpviz.numbers import short
from dpviz.plots import clouds, plan_figures
from dpviz.plots.clouds import Ground
from dpviz.plots.elements import style
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.problems.tuning.model_tuning import HuberRegression, KernelMachine, LengthScales, NormalLocation
from dpviz.problems.tuning.trainers import SLOW
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem, TuningSpecification
from dpviz.ui import charts, explain
from dpviz.ui.bayesian_optimization import closer_looks
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import hero, results
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import Charts, PlanView
from dpviz.ui.experiment.problem_menu import UPLOAD, Menu, ProblemEntry, ProblemMenu, Source, generators, setting_names
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import MakeChart, Run, problem_key
from dpviz.ui.uploads import table
from dpviz.ui.uploads.file import missing_rule

# The short names are part of the address.
MODELS: Mapping[str, type[TuningSpecification]] = {
    "scales": LengthScales,
    "machine": KernelMachine,
    "location": NormalLocation,
    "huber": HuberRegression,
}
DRAWN = "drawn"  # name of the source with the default data of a model, which are generated for it
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
# Names of the settings of noise in the evaluated losses.
NOISY = tuple(control.name for control in TuningSpecification.controls() if control.name.startswith("observation"))


def default_generator(model: str) -> type[DatasetSpecification]:
    """Return the class that generates the default data of a model. model : its name in MODELS."""
    return type(MODELS[model].model_fields["data"].default)


MENU = ProblemMenu(
    problems={
        name: ProblemEntry(
            cls,
            prefix=f"{name}_",
            shared=NOISY,
            groups={"Model and users": setting_names(cls, NOISY), "Noisy evaluations": NOISY},
        )
        for name, cls in MODELS.items()
    },
    menu=Menu("model", "What is tuned", {name: cls.title for name, cls in MODELS.items()}, "scales", texts.MODEL_HELP),
    sources={
        name: {DRAWN: Source("Drawn for it", default_generator(name), prefix=f"{name}_{DRAWN}_")}
        | generators(GENERATORS)
        | {UPLOAD: Source("Your own file", upload=table.choose_upload_with_users)}
        for name in MODELS
    },
    label="Data",
    help="Part of the users train the model, the others judge it. Your own file stays on this server.",
    expanders=("Model and users", "Noisy evaluations", ""),
)


LOSS = "objective"  # name of the metric with the mean validation loss
GROUND = 0.4  # seconds of trainings that the map of the loss over two settings may take
MIN_POINTS, MAX_POINTS = 9, 41  # points of the map along each setting
ALIKE = 1.05  # a search does as well as DP-GIBO if its final loss is at most this many times as large
MUCH = 0.9  # share of the users' gradients that are clipped, above which there is a warning
AT_ONCE = 0.5  # seconds that the trainings for a picture of the Gaussian process may take
FIRST = 3  # step at which the Gaussian process is drawn at first


class TuningPage(FamilyPage):
    """Private tuning: Bayesian optimisation of the settings of a model, and other searches."""

    prefix = "tuning"
    package = bayesian_optimization
    by_name = algorithms.BY_NAME
    full_names = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "GIBO, and GD beside DP-GD: the same steps without noise, so without privacy."
    data_heading = "Model and data"
    currency = "gaussian"
    at_first: Mapping[str, float] = {"mu": 1.0, "replicates": presets.REPLICATES}
    problems = MENU

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
        """Return noise, trainings and the advised bias level of DP-GIBO."""
        return forecast(experiment, plans)

    def size_note(self, view: PlanView) -> str:
        """Return a line with the numbers of users and of settings."""
        facts = facts_of(view)
        return f"n = {facts.n:,} users, d = {facts.d:,} settings."

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise in each step, of the privacy spent, of the bias next to the noise, and of the
        trainings by bias level."""
        yield plan_figures.noise_schedule(view.plans, view.styles, texts.NOISE)
        yield page_plan.privacy_spent(view)
        yield figures.bias_and_noise(view.theory)
        yield figures.trainings_by_level(view.theory)

    def draw_advice(self, view: PlanView) -> None:
        """Draw who is protected and who is not, and the advised bias level with a button that sets it."""
        forecast: Forecast = view.theory
        problem = view.experiment.problem
        assert isinstance(problem, TuningSpecification)
        with st.container(border=True):
            left, right = st.columns(2, gap="medium")
            left.markdown(f":material/shield: **Protected.** {protected(problem)}")
            no_others = "Nothing is trained here: there is nobody else in the data."
            right.markdown(f":material/no_encryption: **Not protected.** {problem.not_protected or no_others}")
        trainings = "; ".join(f"{label} about {short(count)}" for label, count in forecast.trainings.items())
        st.caption(f"Trainings of a run: {trainings}.")
        if forecast.advice is None or not forecast.selected:
            return
        level = forecast.advice.level
        # With a fixed number of evaluations, a step does not stop by its bias level.
        is_fixed = forecast.method.batch_size is not None or forecast.method.placing.design == "central"
        page_plan.show_advice(
            f"**Stop looking at ω = {short(level)}.** {texts.FIXED if is_fixed else 'Why: “Advice” below.'}",
            f"{self.prefix}_advised",
            "Use this bias level",
            on_click=self._set_bias_level,
            args=(level,),
            # It sets the level as displayed, so it has nothing to do where that is set.
            disabled=forecast.method.bias_level == float(short(level)) and not is_fixed,
            help="Sets the bias level, and leaves the number of evaluations per step to it.",
        )

    def _set_bias_level(self, level: float) -> None:
        """Set the controls so that a step stops to evaluate points when its bias level is `level`; for callbacks.

        A number of evaluations that the user has set is removed, and the central design, which has a number of its own,
        gives way to the adaptive one.
        """
        settings: dict[str, Any] = {"bias_level": float(short(level)), "batch_size": None}
        if st.session_state.get(f"{self.prefix}_placing_design") == "central":
            settings["placing_design"] = "adaptive"
        Panel(self.prefix).set_values(settings)

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        problem = view.experiment.problem
        assert isinstance(problem, TuningSpecification)
        explain.assumptions(
            f"{protected(problem)} {problem.not_protected}",
            texts.POINTS,
            texts.COMPOSITION,
            texts.constants(missing_rule(problem.dataset)),
            texts.SCREEN,
            read=problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def has_map(self, planned: PlanView | Run) -> bool:
        """Return true if a map of the loss can be drawn: over two settings, with public data and quick trainings."""
        facts = facts_of(planned)
        return planned.experiment.problem.public and facts.d == 2 and MIN_POINTS**2 * facts.training_seconds < GROUND

    def landscape(self, run: Run, trace: Trace) -> Chart | None:
        """Return contours of the validation loss over two settings, with a dot at what each run would release."""
        across, up = facts_of(run).axes
        return clouds.landscape(
            trace,
            partial(_ground, run),
            arm_styles(run.experiment.arms),
            (across, up),
            objective_name="validation loss",
            heading="The validation loss below the runs",
            caption=f"{texts.LANDSCAPE} **Not private**: it reads the validation losses.",
        )

    def curves(self, run: Run, diagnostics: bool, by_spent: bool = False) -> Chart | None:
        """Return the validation losses of all methods against their trainings; on a user's file without diagnostics the
        path of the released settings, or, where there is none, the usual curves of a released value.

        by_spent : true for the privacy spent on the axis in place of the trainings.
        """
        if run.job.trace is None:
            return None
        trace = run.job.trace.visible(diagnostics)
        if LOSS not in trace.metrics:
            path = _path_chart(run, trace, (0, 1), height=hero.HEIGHT)
            return path or hero.curves(run, diagnostics, NOISY_NORM.name, max_private=len(presets.METHODS))
        metric, axis_name = trace.metrics[LOSS], "trainings"
        make_figure = partial(figures.by_trainings, is_finished=run.job.state == "done", height=hero.HEIGHT)
        styles = arm_styles(run.experiment.arms)
        if by_spent:
            unit = UNITS[run.currency].label
            axis_name, title = f"privacy spent, {unit}", f"Privacy spent, {unit}"
            spent = {
                label: spent_curve(trace, label, run.plans[label], run.currency)
                for label, arm_trace in trace.arm_traces.items()
                if arm_trace.private
            }
            figure, note = make_figure(trace, LOSS, styles, spent, title)
        else:
            figure, note = make_figure(trace, LOSS, styles)
        privacy = results.privacy_sentence(metric, trace, run.experiment)
        caption = " ".join(filter(None, (explain.spread_sentence(run.experiment.replicates), note, privacy)))
        alt = f"{metric.label} against {axis_name}, one line per method"
        return Chart(figure, metric.label, alt, caption, provenance(trace.privacy_by_arm(metric).values()))

    def more_faces(self, view: PlanView | None) -> Mapping[str, MakeChart]:
        """Return the picture of the losses against the privacy spent; none on a file, whose losses may be hidden."""
        if view is None or not view.experiment.public:
            return {}
        return {"Privacy spent": partial(self.curves, by_spent=True)}

    def headline(self, run: Run, trace: Trace) -> hero.Headline | None:
        """Return the final loss of the best method; its sentence names the trainings of a run of every method, and the
        simpler searches that end about as low as DP-GIBO, or lower.

        Return None on a user's file whose losses are hidden: the number of trainings is no result.
        """
        headline, result = hero.lowest_headline(run, trace), headline_result(trace)
        if headline is None or result is None or result.metric.name != LOSS:
            return None
        ends = {result.best: result.end, **dict(result.others)}  # the final loss of each method, by label
        trainings = {label: trace.arm_traces[label].last(TRAININGS.name) for label in ends}  # (R,) of each method
        means = {label: short(float(counts.mean())) for label, counts in trainings.items() if len(counts)}
        listed = ", ".join(f"{label} {mean}" for label, mean in means.items())
        if len(means) > 1 and len(set(means.values())) == 1:
            listed = f"{means[result.best]} for each method"
        sentences = [headline.sentence, f"Trainings of a run, on average: {listed}."]
        gibo_end = ends.get(presets.GIBO) if run.job.state == "done" else None  # a stopped run has no ends to compare
        for label in (presets.RANDOM, presets.GLOBAL):
            if gibo_end is not None and label in ends and ends[label] < ALIKE * gibo_end:
                may_be_chance = result.may_be_chance(label, presets.GIBO)
                sentences.append(texts.beaten(label, better=ends[label] < gibo_end, chance=may_be_chance))
        return headline._replace(sentence=" ".join(sentences))

    def ground(self, run: Run, *_axes: FixedAxis) -> Ground | None:
        """Return the loss below the runs, over the whole box of both settings; None where it cannot be drawn.

        The further arguments, the axes of the runs, do not matter.
        """
        return _ground(run) if self.has_map(run) else None

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, _view: PlanView) -> CurveOptions:
        """Return options that draw the number of evaluations per step second."""
        return CurveOptions(second=BATCH_SIZE.name)

    def draw_results(self, panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Charts:
        """Draw the length of a step's gradient next to its noise, the paths of two settings, and after the run the
        released settings, and the Gaussian process along one setting; return the charts for the download."""
        left, right = st.columns(2, gap="medium")
        with left:
            drawings = _signal(panel, run, trace, diagnostics)
        with right:
            _paths(panel, run, trace)
        if run.job.active:
            return drawings
        arm = _first_gibo(run, trace)
        left, right = st.columns(2, gap="medium")
        with left:
            _released_settings(panel, run, trace)
        if arm is not None and diagnostics and _can_draw_process(run, arm, trace.arm_traces[arm.label]):
            with right:
                _process(panel, run, trace, arm)
        return drawings

    def draw_verdict(self, run: Run, trace: Trace, diagnostics: bool) -> None:
        """Say which share of the users' gradients was clipped at the end of the run of the first DP-GIBO.

        It reads the raw data, so it is drawn with diagnostics only.
        """
        arm = _first_gibo(run, trace)
        if not diagnostics or arm is None:
            return
        shares = trace.arm_traces[arm.label].last("internal_clipped_share")
        if not len(shares) or not np.isfinite(shares).all():
            return
        share = float(shares.mean())
        explain.show_not_private(f"**Clipped**: {texts.clipping(share, arm.label)}")
        if share > MUCH:
            st.warning(texts.MUCH_CLIPPED, title=f"{short(100 * share, 2)} % of the gradients are clipped")


# ---------------------------------------------------------------------------------------- the plan and the live picture


def protected(problem: TuningSpecification) -> str:
    """Return sentences that say who is protected, the unit by which neighbouring data sets differ, and which numbers
    are public."""
    unit, data = problem.unit, problem.dataset
    has_several_rows = isinstance(data, DatasetSpecification) and isinstance(data.facts(), UserFacts)
    public = "The number of users n is public."
    if has_several_rows:
        public = "The number of users n, who they are and how many rows each has are public."
    return (
        f"{unit[0].upper()}{unit[1:]}: that is how neighbouring data sets differ. All rows of a user count as one, by "
        f"their mean. {public}"
    )


def facts_of(planned: PlanView | Run) -> TuningFacts:
    """Return the public facts of the problem, which all plans share."""
    first_plan, *_ = planned.plans.values()
    assert isinstance(first_plan.facts, TuningFacts)
    return first_plan.facts


@st.cache_resource(max_entries=8, scope="session", show_spinner=False, hash_funcs={Run: problem_key})
def _ground(run: Run) -> Ground:
    """Compute the mean validation loss over both settings, at as many points as GROUND seconds of trainings allow."""
    facts = facts_of(run)
    # Along each setting; a training that takes no time at all must not divide by zero.
    points = int(np.clip(np.sqrt(GROUND / max(facts.training_seconds, 1e-9)), MIN_POINTS, MAX_POINTS))
    low, high = facts.box
    return clouds.objective_ground(run.problem, *(np.linspace(low[j], high[j], points) for j in range(2)))


# ---------------------------------------------------------------------------------------------------------- the results


def _first_gibo(run: Run, trace: Trace) -> Arm | None:
    """Return the first arm with a private DP-GIBO that has taken a step, as its recorded path shows; else None."""
    for arm in run.experiment.arms:
        is_private_gibo = isinstance(arm.algorithm, Gibo) and not arm.reference
        if is_private_gibo and arm.label in trace.arm_traces and trace.arm_traces[arm.label].path.get("x"):
            return arm
    return None


def _signal(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Charts:
    """Draw the length of the first DP-GIBO's gradient in each step, next to its noise and bias; return the chart."""
    arm = _first_gibo(run, trace)
    if arm is None:
        return []
    plan, experiment = run.plans[arm.label], run.experiment
    noise = float(np.sqrt(plan.facts.d) * plan.noise["gradient"][0])  # its root mean square length, √d σ
    privacy = explain.release_sentence(experiment, experiment.replicates)
    if diagnostics:
        diagnostic = explain.diagnostic_sentence(experiment.replicates, experiment.problem.public)
        privacy = f"{privacy} Of the curves named in the frame: {diagnostic}"
    return [charts.show(figures.signal_and_noise(trace, arm.label, noise, privacy), panel.key("chart_signal"))]


@st.fragment
def _paths(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the path of the first run of each method in the plane of two settings that the visitor chooses."""
    facts = facts_of(run)
    if facts.d < 2 or not _arms_with_path(trace):
        return
    st.subheader("Where did the settings go?", anchor=False)
    row = st.container(horizontal=True)
    across = _setting_menu(row, panel, facts, "path_0", default=0, title="Across")
    up = _setting_menu(row, panel, facts, "path_1", default=1, title="Up")
    chart = _path_chart(run, trace, (across, up))
    assert chart is not None  # there is a path
    charts.show_captioned(chart, panel.key("chart_paths"))


def _arms_with_path(trace: Trace) -> Mapping[str, ArmTrace]:
    """Return the methods of which the path of a run and its release are recorded, by label."""
    return {
        label: arm_trace
        for label, arm_trace in trace.arm_traces.items()
        if "x" in arm_trace.output and arm_trace.path.get("x")
    }


def _path_chart(run: Run, trace: Trace, pair: tuple[int, int], height: int = style.HEIGHT) -> Chart | None:
    """Return the path of the first run of each method in the plane of two settings, which are given by their indices.

    Return None for a single setting, and before the first release.
    """
    arm_traces, facts, experiment = _arms_with_path(trace), facts_of(run), run.experiment
    if not arm_traces or facts.d < 2:
        return None
    privacy = results.releases_sentence([arm_trace.privacy for arm_trace in arm_traces.values()], experiment)
    return figures.paths(arm_traces, arm_styles(experiment.arms), facts, pair, privacy, height)


def _setting_menu(
    container: st.delta_generator.DeltaGenerator, panel: Panel, facts: TuningFacts, name: str, default: int, title: str
) -> int:
    """Draw a menu of the d settings in a container; return the index of the selected one.

    name : of the menu among the page's keys. default : index that is selected at first. title : of the menu.
    """
    key = panel.key(f"{name}_{facts.d}")  # with d, so that an index of another problem cannot be out of range
    return container.selectbox(
        title, range(facts.d), index=default, key=key, format_func=lambda j: facts.names[j].capitalize()
    )


def _can_draw_process(run: Run, arm: Arm, arm_trace: ArmTrace) -> bool:
    """Return true if `_process` can draw the Gaussian process of a DP-GIBO, and quickly.

    It trains on the data, which are gone once a file is removed, and takes the first t records for those of the first t
    steps.
    """
    assert isinstance(arm.algorithm, Gibo)
    facts, steps = facts_of(run), arm_trace.iterations
    has_every_step = len(steps) > 1 and steps == list(range(len(steps)))
    # Trainings at the points of the curve, and at the evaluated points that the Gaussian process keeps, its window.
    seconds, trainings = facts.training_seconds, POINTS + arm.algorithm.batches(facts).window
    is_quick = trainings * seconds < AT_ONCE and seconds < SLOW  # slow ones would start processes of the system
    return run.has_data and has_every_step and is_quick


@st.fragment
def _process(panel: Panel, run: Run, trace: Trace, arm: Arm) -> None:
    """Draw the loss along one setting next to the Gaussian process that a DP-GIBO fits to it at a step.

    The visitor chooses setting and step; it is the process of the arm's first run.
    """
    facts, arm_trace = facts_of(run), trace.arm_traces[arm.label]
    last = arm_trace.iterations[-1]
    st.subheader("What does the process see?", anchor=False)
    row = st.container(horizontal=True)
    setting = _setting_menu(row, panel, facts, "along", default=0, title="Along")
    step = 1
    if last > 1:  # a slider needs two values at least
        key = panel.key(f"along_step_{last}")
        step = row.slider("Step t", min_value=1, max_value=last, value=min(FIRST, last), key=key)
    path = np.array(arm_trace.path["x"][:step], dtype=float)  # (step, d), the iterates up to this step
    curve = _curve(problem_key(run), arm.algorithm.to_json(), path, setting, run)
    name = facts.names[setting].capitalize()
    charts.show_captioned(
        figures.posterior_slice_chart(curve, name, facts.logarithmic[setting], step), panel.key("chart_process")
    )


@st.cache_resource(max_entries=32, scope="session", show_spinner=False)
def _curve(problem_json: str, method: str, path: np.ndarray, setting: int, _run: Run) -> PosteriorSlice:  # noqa: ARG001 (a key)
    """Compute the loss and the posterior of the Gaussian process along a setting, through the end of a path (t, d).

    problem_json : text of the problem. method : that of the DP-GIBO. Both and the path are the key of the cache; the
    settings alone would not do, since each run on a file has another path.
    """
    problem = _run.problem
    assert isinstance(problem, TuningProblem)
    return slice_along(problem, Gibo.from_json(method), path, setting)


def _released_settings(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw what one run of each private method releases: the settings where it ended, in their natural units."""
    facts, problem = facts_of(run), run.experiment.problem
    assert isinstance(problem, TuningSpecification)
    arm_traces = results.private_traces(trace)
    if not arm_traces:
        return
    low, high = facts.settings_at(np.array(facts.box))
    model = pd.DataFrame({"setting": [name.capitalize() for name in facts.names], "from": low, "to": high})
    released = {label: facts.settings_at(arm_trace.output["x"][0]) for label, arm_trace in arm_traces.items()}
    model = model.assign(**released)
    sentences = {}
    for label, arm_trace in arm_traces.items():
        x = arm_trace.output["x"][0]  # (d,) of the first run, as are its trainings at the last record
        trainings = float(arm_trace.values[TRAININGS.name][-1][0])
        at_edge = int(np.count_nonzero((x <= facts.box[0]) | (x >= facts.box[1])))
        wider = f"; {at_edge} of {facts.d} settings at an edge of the box: a wider one may do better" if at_edge else ""
        sentences[label] = f"after {short(trainings, 6)} training{'s' * (trainings != 1)}{wider}."
    meaning = f"{texts.RELEASED} {problem.not_protected}".strip()
    results.show_model(panel, run, sentences, model, meaning, digits="%.4g")


PAGE = TuningPage()
