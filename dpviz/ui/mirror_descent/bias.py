"""The tab "Bias of few draws": effects on a curved value, on the gradients of this game and on rare events."""

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
SUBJECTS = {
    "value": "A curved value",
    "gradient": "This game's gradients",
    "spread": "Their spread",
    "tail": "Rare events",
}
DRAWS = (1, 2, 4, 8, 16, 32, 64)
ROWS, REPETITIONS = 500, 1000
MAX_VERTICES = 2000  # beyond, a measurement would take more than a few seconds


def show(panel: Panel, view: PlanView) -> None:
    """Draw the control for a subject, and the bias of drawn vertices in it."""
    st.markdown(texts.SAMPLING_BIAS)
    subject = panel.choice("maurey_of", "Look at", SUBJECTS, "value", "What is seen through drawn vertices.")
    if subject == "value":
        _value(panel)
    elif subject == "tail":
        charts.show(choice_figures.tails((1, 4, 16, 64)), panel.key("chart_tail"))
    else:
        _gradients(panel, view, subject)


def _value(panel: Panel) -> None:
    with st.columns([1, 2])[0]:
        vertices = int(panel.number(VERTICES, "maurey_d") or VERTICES.default)
    charts.show(figures.maurey(_measure(min(max(vertices, 2), 3000))), panel.key("chart_maurey"))


def _gradients(panel: Panel, view: PlanView, subject: str) -> None:
    """Draw the bias or spread of the gradients of the user's game, on its first rows: a diagnostic, so for public data
    only.

    subject : "gradient" or "spread".
    """
    facts, problem = facts_of(view), view.experiment.problem
    if not problem.public:
        st.info("This look reads the rows, and no budget pays for it. It is there for generated and bundled data.")
        return
    if max(facts.d_x, facts.d_y) > MAX_VERTICES:
        st.info(f"Choose at most {MAX_VERTICES:,} strategies of each player: the look would take too long.")
        return
    bias = _measure_game(problem.to_json(), subject)
    caption = (
        f"At uniform strategies, {REPETITIONS:,} simulated draws, the first {min(ROWS, facts.n):,} rows. "
        f"{explain.diagnostic(1, problem.public)}"
    )
    if subject == "gradient":
        chart = choice_figures.gradient_bias(bias, facts, caption)
    else:
        chart = choice_figures.gradient_spread(bias, caption)
    charts.show(chart, panel.key(f"chart_{subject}"))


@st.cache_data(max_entries=32, show_spinner=False)
def _measure(vertices: int) -> sampling_bias.SamplingBias:
    return sampling_bias.measure(DRAWS, vertices, 2000, 0)


@st.cache_data(max_entries=32, show_spinner="Drawing vertices…")
def _measure_game(text: str, subject: str) -> sampling_bias.SamplingBias:
    """Measure bias or spread of gradients at uniform strategies, for the problem with JSON text `text`."""
    game = ProblemSpecification.from_json(text).build()
    x, y = game.facts.uniform(1)  # type: ignore[attr-defined]
    rows = slice(0, min(ROWS, game.facts.n))
    measure = sampling_bias.measure_game if subject == "gradient" else sampling_bias.measure_spread
    return measure(game, (x[0], y[0]), DRAWS, REPETITIONS, 0, rows)  # type: ignore[arg-type]
