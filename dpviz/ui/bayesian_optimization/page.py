"""The page of private tuning, described."""

from dataclasses import replace

from dpviz.families import bayesian_optimization
from dpviz.families.bayesian_optimization import algorithms, presets, texts
from dpviz.families.bayesian_optimization.algorithms import BATCH_SIZE
from dpviz.families.bayesian_optimization.forecast import forecast
from dpviz.ui.bayesian_optimization import closer_look, live, plan, problem, results
from dpviz.ui.experiment import results as page_results
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.controls import Catalogue, Group
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options


def _options(shown: PlanView) -> Options:
    return replace(page_results.plain_options(shown), second=BATCH_SIZE.name)


PAGE = FamilyPage(
    prefix=plan.PREFIX,
    package=bayesian_optimization,
    texts=texts,
    catalogue=Catalogue(
        presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=algorithms.BY_NAME, words=texts.WORDS
    ),
    presets=presets.PRESETS,
    groups=(
        Group("", ("bias_level", "iterations", "clip", "step_size", "rule", "clip_always", "share")),
        Group("What is assumed of a loss", ("noise_factor", "surrogate")),
        Group("Which points", ("batch_size", "placing")),
        Group("Random and global search", ("trainings", "length_scale", "first", "candidates")),
    ),
    references="GIBO, and GD beside DP-GD: the same steps without noise, so without privacy.",
    data_heading="Model and data",
    currency="gaussian",
    at_first={"mu": 1.0, "replicates": presets.REPLICATES},
    choose=problem.data,
    build=problem.problem,
    settings_of=problem.settings_of,
    predict=forecast,
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
    extra=results.extra,
    verdict=results.verdict,
    scenery=PlaneView(ground=live.below),
)
