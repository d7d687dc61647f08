"""A closer look at what drawing few vertices does: to a curved value, to the gradients of this game, to rare events."""

import streamlit as st

from dpviz.families.mirror_descent import choice_figures, figures, sampling_bias, texts
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Control
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.mirror_descent.plan import facts_of

VERTICES = Control(
    "maurey_d", "Vertices", "Vertices of the strategy that is sampled.", 100, int, 2, 3000, symbol="d", scale="log"
)
SEEN = {"value": "A curved value", "gradient": "This game's gradients", "spread": "Their spread", "tail": "Rare events"}
DRAWS = (1, 2, 4, 8, 16, 32, 64)
ROWS, REPETITIONS = 500, 1000
MOST_VERTICES = 2000  # beyond, a look would take more than a few seconds


def show(panel: Panel, shown: PlanView) -> None:
    """Bias of drawn vertices, of the kind that is chosen."""
    st.markdown(texts.SAMPLING_BIAS)
    seen = panel.choice("maurey_of", "Look at", SEEN, "value", "What is seen through drawn vertices.")
    if seen == "value":
        _value(panel)
    elif seen == "tail":
        charts.show(choice_figures.tails((1, 4, 16, 64)), panel.key("chart_tail"))
    else:
        _gradients(panel, shown, seen)


def _value(panel: Panel) -> None:
    with st.columns([1, 2])[0]:
        vertices = int(panel.number(VERTICES, "maurey_d") or VERTICES.default)
    charts.show(figures.maurey(_measured(min(max(vertices, 2), 3000))), panel.key("chart_maurey"))


def _gradients(panel: Panel, shown: PlanView, seen: str) -> None:
    """Of the user's own game, on its first rows; a diagnostic, so of data that are public only."""
    facts, problem = facts_of(shown), shown.experiment.problem
    if not problem.public:
        st.info("This look reads the rows, and no budget pays for it. It is there for generated and bundled data.")
        return
    if max(facts.d_x, facts.d_y) > MOST_VERTICES:
        st.info(f"Choose at most {MOST_VERTICES:,} strategies of each player: the look would take too long.")
        return
    measured = _of_game(problem.to_json(), seen)
    words = (
        f"At uniform strategies, {REPETITIONS:,} simulated draws, the first {min(ROWS, facts.n):,} rows. "
        f"{explain.diagnostic(1, problem.public)}"
    )
    if seen == "gradient":
        chart = choice_figures.gradient_bias(measured, facts, words)
    else:
        chart = choice_figures.gradient_spread(measured, words)
    charts.show(chart, panel.key(f"chart_{seen}"))


@st.cache_data(max_entries=32, show_spinner=False)
def _measured(vertices: int) -> sampling_bias.SamplingBias:
    return sampling_bias.measure(DRAWS, vertices, 2000, 0)


@st.cache_data(max_entries=32, show_spinner="Drawing vertices…")
def _of_game(text: str, seen: str) -> sampling_bias.SamplingBias:
    """At uniform strategies, of a problem given as its JSON text."""
    game = ProblemSpecification.from_json(text).build()
    x, y = game.facts.uniform(1)  # type: ignore[attr-defined]
    rows = slice(0, min(ROWS, game.facts.n))
    measure = sampling_bias.measure_game if seen == "gradient" else sampling_bias.measure_spread
    return measure(game, (x[0], y[0]), DRAWS, REPETITIONS, 0, rows)  # type: ignore[arg-type]
