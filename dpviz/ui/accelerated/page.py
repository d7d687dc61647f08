"""The page of the accelerated methods, described."""

from dpviz.families import accelerated
from dpviz.families.accelerated import presets, texts
from dpviz.ui.accelerated import closer_look, own_schedule, plan, problem, results, runs
from dpviz.ui.experiment.controls import Catalogue, Group
from dpviz.ui.experiment.page import FamilyPage

PAGE = FamilyPage(
    prefix=own_schedule.PREFIX,
    package=accelerated,
    texts=texts,
    catalogue=Catalogue(
        presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=("schedule", "horizon"), words=texts.WORDS
    ),
    presets=presets.PRESETS,
    groups=(
        Group("", ("iterations", "relative_step", "batch_fraction")),
        Group(
            "Noise and momentum",
            ("noise", "schedule", "knots", "horizon", "stage_lengths", "momentum_rule", "momentum"),
            only={"knots": ("schedule", "own"), "momentum": ("momentum_rule", "own")},
        ),
    ),
    choose=problem.data,
    build=problem.model,
    settings_of=problem.settings_of,
    predict=plan.predict,
    advice=own_schedule.show,
    noise=plan.noise,
    drawings=plan.drawings,
    alts=plan.ALTS,
    looks=closer_look.looks,
    note=plan.batch_note,
    assumptions=plan.assumptions,
    options=plan.options,
    summary=results.summary,
    verdict=results.verdict,
    scenery=runs.SCENERY,
)
