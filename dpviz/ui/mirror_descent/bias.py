"""A closer look at what drawing few vertices does: to a curved value, to the gradients of this game, to rare events."""

import streamlit as st

from dpviz.families.mirror_descent import bias_figures, figures, sampling_bias
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Control
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.mirror_descent.plan import facts_of

HEIGHT = 380
VERTICES = Control(
    "maurey_d", "Vertices", "Vertices of the strategy that is sampled.", 100, int, 2, 3000, symbol="d", scale="log"
)
SEEN = {"value": "A curved value", "gradient": "This game's gradients", "spread": "Their spread", "tail": "Rare events"}
DRAWS = (1, 2, 4, 8, 16, 32, 64)
ROWS, REPETITIONS = 500, 1000
MOST_VERTICES = 2000  # beyond, a look would take more than a few seconds


def show(panel: Panel, shown: PlanView) -> None:
    """Bias of drawn vertices, of the kind that is chosen."""
    st.markdown(
        "A player sees the other one through K drawn vertices only. Where the objective is curved that is biased by "
        "about 1/K (Maurey); where it is linear, as in a matrix game, it is not."
    )
    seen = panel.choice("maurey_of", "Look at", SEEN, "value", "What is seen through drawn vertices.")
    if seen == "value":
        _value(panel)
    elif seen == "tail":
        _tail(panel)
    else:
        _gradients(panel, shown, seen)


def _value(panel: Panel) -> None:
    with st.columns([1, 2])[0]:
        vertices = int(panel.number(VERTICES, "maurey_d") or VERTICES.default)
    charts.show(
        figures.maurey(_measured(min(max(vertices, 2), 3000)), height=HEIGHT),
        panel.key("chart_maurey"),
        "Bias against the number of draws",
        "Measured sampling bias against draws K, with the exact line and the bound",
        f"Mean of ½‖x̂‖² - ½‖x‖² over 2,000 simulated draws at uniform x, two standard errors. {SETTINGS_ONLY}",
    )


def _tail(panel: Panel) -> None:
    charts.show(
        bias_figures.tails((1, 4, 16, 64), height=HEIGHT),
        panel.key("chart_tail"),
        "How rarely drawn vertices overshoot",
        "Probability that drawn vertices exceed a value by so much, exact and by the lemma, for four numbers of draws",
        "Lemma 3.2: h(x̂) exceeds h(x) + 2 L₁/K by α with probability at most exp(-K α²/(2 L₀²)); for the absolute "
        f"value twice that (erratum E9). Solid: exact, for h = ⟨c, x⟩ with c = ±1 and uniform x. {SETTINGS_ONLY}",
    )


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
    privacy = explain.diagnostic(1, problem.public)
    of = f"At uniform strategies, {REPETITIONS:,} simulated draws, the first {min(ROWS, facts.n):,} rows. "
    if seen == "gradient":
        figure = bias_figures.gradient_bias(measured, facts, height=HEIGHT)
        heading = "Bias of this game's gradients"
        alt = "Measured bias of the gradients against draws, two bounds, and the bias-reduced oracle"
        caption = (
            "Largest coordinate of E ∇F(x̂, ŷ) - ∇F(x, y). Bounds: 2 L₂/K per player with second derivatives, 4 L₁/√K "
            "without (Appendix D; by E2 neither is needed for the gap). The bias-reduced oracle has the bias of many "
            "draws at the cost of few."
        )
        if not measured.bound.any():
            caption = "Gradients are linear here, so the bias is 0: what is drawn is the error of the simulation."
    else:
        figure = bias_figures.gradient_spread(measured, height=HEIGHT)
        heading = "Spread of x's gradient"
        alt = "Mean squared largest error of x's gradient against draws, and its bound"
        caption = (
            "Mean of ‖∇ₓF(x̂, y) - ∇ₓF(x, y)‖²_∞, and its bound 2 (2 L₂/K)² + 4 L₁² (1 + ln 2d)/K. It falls like 1/K, "
            "the squared bias like 1/K²."
        )
    charts.show(figure, panel.key(f"chart_{seen}"), heading, alt, f"{caption} {of}{privacy}", "not private")


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
    return measure(game, x[0], y[0], DRAWS, REPETITIONS, 0, rows)  # type: ignore[arg-type]
