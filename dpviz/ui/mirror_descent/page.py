"""The page of the private games, described."""

from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import presets, texts
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.ui.experiment.controls import Catalogue, Group
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.mirror_descent import closer_look, plan, problem, results

PAGE = FamilyPage(
    prefix="mirror",
    package=mirror_descent,
    texts=texts,
    catalogue=Catalogue(
        presets.METHODS,
        presets.arms,
        presets.offered(QuadraticGame)[1],
        by_name=presets.BY_NAME,
        words=texts.WORDS,
    ),
    presets=presets.PRESETS,
    groups=(
        Group("", ("iterations", "relative_step", "batching")),
        Group(
            "Draws and accounting",
            (
                *("draws", "draws_y", "accounting", "parameters", "output", "split", "share_x", "certificate_share"),
                "release",
            ),
            only={"share_x": ("split", "own")},
        ),
        Group(
            "Other methods",
            (
                *("gradient_rounds", "euclidean_step", "entropic_step", "responses", "matrix_rounds"),
                *("chosen_vertices", "measured_queries", "iterate", "fitting_rounds", "stop_level", "rows_per_draw"),
                *("refresh_draws", "refresh", "output_draws", "theorem"),
            ),
        ),
    ),
    references="The best play that is found without privacy, tuned on the data: the floor of the picture.",
    data_heading="Game",
    currency="approximate",
    at_first={"epsilon": 1.0},
    choose=problem.choose,
    offer=problem.offer,
    offer_of=problem.offer_of,
    applicable=problem.applicable,
    build=problem.build,
    settings_of=problem.settings_of,
    predict=plan.predict,
    card=plan.range_card,
    advice=plan.recommendation,
    noise=plan.noise,
    drawings=plan.drawings,
    alts=plan.ALTS,
    looks=closer_look.looks,
    note=plan.size_note,
    assumptions=plan.assumptions,
    options=plan.options,
    summary=results.summary,
    extra=results.show,
    verdict=results.verdict,
)
