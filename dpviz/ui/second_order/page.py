"""The page of the second-order methods, described."""

from dataclasses import replace

from dpviz.families import second_order
from dpviz.families.second_order import presets, texts
from dpviz.ui.experiment import results as page_results
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.controls import Catalogue, Group
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options
from dpviz.ui.second_order import closer_look, live, plan, problem, results


def _options(shown: PlanView) -> Options:
    public = shown.experiment.problem.public
    return replace(page_results.plain_options(shown), second="gradient_norm" if public else "gradient_charged")


PAGE = FamilyPage(
    prefix="second",
    package=second_order,
    texts=texts,
    catalogue=Catalogue(
        presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=presets.BY_NAME, words=texts.WORDS
    ),
    presets=presets.PRESETS,
    groups=(
        Group("", ("gradient_target", "curvature_target", "iterations")),
        Group(
            "Noise and tests",
            (
                *("hessian_noise", "hessian_products", "curvature", "split", "hessian_share", "certificate"),
                *("at_state", "test_before", "trust_radius"),
            ),
            {"hessian_products": ("hessian_noise", "goe")},
        ),
        Group("Phases and batches", ("phases", "first_share", "carry_over", "batch_fraction")),
        Group("Line search", ("search_share", "ladder")),
        Group("Constants of the analysis", ("constants",)),
    ),
    references="OPT once more, without noise: no privacy.",
    currency="approximate",
    at_first={"epsilon": 1.0, "delta": 1e-5},
    choose=problem.data,
    build=problem.model,
    settings_of=problem.settings_of,
    predict=plan.predict,
    card=plan.card,
    advice=plan.traffic_light,
    noise=plan.noise,
    drawings=plan.drawings,
    alts=plan.ALTS,
    looks=closer_look.looks,
    note=plan.size_note,
    assumptions=plan.assumptions,
    picture=live.picture,
    number=live.number,
    options=_options,
    summary=results.summary,
    extra=results.tests,
    verdict=results.verdict,
    scenery=PlaneView(ground=live.ground),
)
