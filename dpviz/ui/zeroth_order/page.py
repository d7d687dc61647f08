"""The page of the zeroth-order methods, described."""

from dataclasses import replace

from dpviz.families import zeroth_order
from dpviz.families.zeroth_order import presets, texts
from dpviz.families.zeroth_order.forecast import forecast
from dpviz.families.zeroth_order.path import EVALUATIONS
from dpviz.problems.values.black_box import BlackBox
from dpviz.ui.experiment import results as page_results
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.controls import Catalogue, Group
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options
from dpviz.ui.zeroth_order import closer_look, live, plan, released, results
from dpviz.ui.zeroth_order import problem as problem_controls


def _options(shown: PlanView) -> Options:
    problem = shown.experiment.problem
    jumps = isinstance(problem, BlackBox) and not problem.loss().continuous
    second = "smoothed_gradient_norm" if jumps else "stationarity_bound"
    if not problem.public:
        second = EVALUATIONS.name
    return replace(page_results.plain_options(shown), second=second)


PAGE = FamilyPage(
    prefix=plan.PREFIX,
    package=zeroth_order,
    texts=texts,
    catalogue=Catalogue(
        presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=presets.BY_NAME, words=texts.WORDS
    ),
    presets=presets.PRESETS,
    groups=(
        Group("", ("iterations", "epoch_length", "expected_norm", "travel")),
        Group(
            "Directions and clipping", ("directions", "directions_per_row", "clipping", "concentration", "symmetric")
        ),
        Group("Sums, rows and epochs", ("sums", "first_share", "follow_moves", "fresh_start", "one_epoch")),
        Group(
            "DP-ZO and DP-SGD",
            ("descent_steps", "relative_step_size", "distance", "clip", "noise", "law"),
        ),
    ),
    references="The published algorithm once more, without noise: no privacy.",
    data_heading="Function",
    currency="gaussian",
    at_first={"mu": 0.3, "replicates": presets.REPLICATES},
    choose=problem_controls.data,
    build=problem_controls.model,
    settings_of=problem_controls.settings_of,
    predict=forecast,
    card=plan.card,
    advice=plan.verdict,
    noise=plan.noise,
    drawings=plan.drawings,
    alts=plan.ALTS,
    looks=closer_look.looks,
    note=plan.size_note,
    assumptions=plan.assumptions,
    picture=live.picture,
    number=live.number,
    options=_options,
    summary=released.summary,
    extra=results.extra,
    verdict=results.verdict,
    scenery=PlaneView(ground=live.below),
)
