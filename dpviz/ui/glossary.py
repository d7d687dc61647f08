"""The glossary: one sentence and one formula per term, here and nowhere else; pages link to the terms that they use."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

PAGE, TAB = "pages/learn.py", "Glossary"
TABS = "learn_tabs"  # the key, and the name in the address, of the tabs among which the glossary stands


@dataclass(frozen=True)
class Term:
    """A term of the field.

    slug : what pages name it by. name : as it is written, with its symbol. sentence, formula : what it means, in one of
    each. D and D′ are neighbouring data sets, M is an algorithm, S a set of outcomes.
    """

    slug: str
    name: str
    sentence: str
    formula: str


_GUARANTEES = (
    Term(
        "epsilon",
        "ε, pure differential privacy",
        "Replacing one row changes the probability of any outcome by a factor of at most e^ε.",
        "P[M(D) ∈ S] ≤ e^ε P[M(D′) ∈ S]",
    ),
    Term(
        "delta",
        "δ, as in (ε, δ)",
        "What may be missing from the bound with ε, as a probability: it belongs far below 1/n.",
        "P[M(D) ∈ S] ≤ e^ε P[M(D′) ∈ S] + δ",
    ),
    Term(
        "rho",
        "ρ, zero-concentrated DP (zCDP)",
        "All Rényi divergences lie below one line, so what releases cost adds up.",
        "D_α(M(D) ‖ M(D′)) ≤ α ρ, for all α > 1",
    ),
    Term(
        "mu",
        "μ, Gaussian DP (GDP)",
        "No test for one row does better than telling two normal distributions apart whose means differ by μ.",
        "f(a) ≥ Φ(Φ⁻¹(1 − a) − μ)",
    ),
    Term(
        "renyi",
        "Rényi DP",
        "A bound on one moment of the privacy loss, of order α.",
        "D_α(P ‖ Q) = ln E_Q[(P/Q)^α] / (α − 1)",
    ),
    Term(
        "neighbouring",
        "Neighbouring data sets",
        "Two data sets that differ in one replaced row; how many rows there are is public.",
        "D ~ D′: the same n, and Dᵢ ≠ D′ᵢ for one i",
    ),
    Term(
        "profile",
        "Privacy profile",
        "The smallest δ for every ε: all that can be said about an algorithm in the form (ε, δ).",
        "δ(ε) = sup over D ~ D′ and S of P[M(D) ∈ S] − e^ε P[M(D′) ∈ S]",
    ),
    Term(
        "tradeoff",
        "Trade-off curve",
        "The fewest misses that a test for one row can have at every rate of false alarms.",
        "f(a) = inf { rate of misses : rate of false alarms ≤ a }",
    ),
    Term(
        "advantage",
        "Advantage",
        "Of the best test for one row, the rate of true alarms minus that of false alarms.",
        "max over a of 1 − a − f(a) = δ(0)",
    ),
)

_NOISE = (
    Term(
        "sensitivity",
        "Sensitivity",
        "The farthest that a query's value can move when one row is replaced.",
        "Δ = max over D ~ D′ of ‖q(D) − q(D′)‖",
    ),
    Term(
        "clipping",
        "Clipping",
        "Rows that count for more are scaled down, so that the sensitivity holds whatever the data are.",
        "g ↦ g · min(1, C/‖g‖)",
    ),
    Term(
        "mechanism",
        "Mechanism",
        "What releases a query's value with noise, or a choice by chance, and books what that costs.",
        "M(D) = q(D) + noise",
    ),
    Term(
        "laplace",
        "Laplace mechanism",
        "Noise in every coordinate, with a scale from the sensitivity in the L1 norm; it gives pure ε.",
        "b = Δ₁/ε, density e^(−|z|/b) / (2b)",
    ),
    Term(
        "gaussian",
        "Gaussian mechanism",
        "Normal noise in every coordinate, from the sensitivity in the L2 norm; it gives μ, and no pure ε.",
        "σ = Δ₂/μ, ρ = μ²/2",
    ),
    Term(
        "exponential",
        "Exponential mechanism",
        "One of several options is drawn, those with a higher score u more often; Δ is how far apart scores can move.",
        "P[r] ∝ exp(ε u(r)/Δ)",
    ),
    Term(
        "tree",
        "Running sums, binary tree",
        "Sums up to every step are put together from few noisy nodes, so one row touches few of them.",
        "T steps: at most 1 + ⌈log₂ T⌉ nodes for a row, and for a sum",
    ),
    Term(
        "sparse_vector",
        "Sparse vector",
        "Of many questions, says which is the first whose answer exceeds a threshold; the others cost nothing.",
        "first i with qᵢ(D) + noise ≥ θ + noise",
    ),
)

_COUNTING = (
    Term(
        "composition",
        "Composition",
        "What several releases of the same rows cost together.",
        "ε₁ + … + ε_T,   ρ₁ + … + ρ_T,   μ = √(μ₁² + … + μ_T²)",
    ),
    Term(
        "amplification",
        "Amplification by sampling",
        "A row that is probably not in a secret batch is harder to detect.",
        "m of n rows: ε′ = ln(1 + (m/n)(e^ε − 1))",
    ),
    Term(
        "schedule",
        "Schedule",
        "How a budget is split over the steps: who gets more of it has less noise.",
        "ε₁ + … + ε_T = ε, b_t = Δ₁/ε_t",
    ),
    Term(
        "accountant",
        "Accountant",
        "What reads the releases of a run and proves what they cost together; the smallest proof holds.",
        "ε(δ) = min over accountants",
    ),
    Term(
        "loss_distribution",
        "Privacy loss distribution (PLD)",
        "How strongly an outcome speaks for one of two neighbours is random; the losses of several releases add up.",
        "L = ln P(x)/Q(x), x ~ P;   δ(ε) = E[(1 − e^(ε − L))₊]",
    ),
)

_RUNS = (
    Term(
        "released",
        "Released, and diagnostic",
        "Released values follow from what mechanisms gave out and may be published; diagnostics read the raw rows.",
        "released = g(M(D)),   diagnostic = g(D)",
    ),
    Term(
        "replicate",
        "Replicate",
        "One of R hypothetical runs with noise of its own; whoever publishes has one.",
        "r = 1, …, R",
    ),
    Term(
        "band",
        "Band",
        "Where eight of ten runs lie at each step.",
        "from the 10 % to the 90 % quantile over the R runs",
    ),
    Term(
        "excess_loss",
        "Excess loss",
        "How far a model is above the best one of its kind.",
        "F(x_t) − F*",
    ),
    Term(
        "duality_gap",
        "Duality gap",
        "What both players of a game could still gain by answering each other best; 0 at an equilibrium.",
        "max over y′ of F(x, y′) − min over x′ of F(x′, y)",
    ),
    Term(
        "goldstein",
        "Goldstein stationarity",
        "Near the point, gradients cancel: some mix of those within a distance r is short. For functions with kinks.",
        "min { ‖g‖ : g ∈ conv ∇F(y), ‖y − x‖ ≤ r } ≤ η",
    ),
    Term(
        "second_order",
        "Second-order stationarity",
        "The gradient is small and nothing bends downwards by much: a minimum, not a pass.",
        "‖∇F(x)‖ ≤ α and λ_min(∇²F(x)) ≥ −β",
    ),
)

_AUDITS = (
    Term(
        "audit",
        "Audit",
        "Many runs on two neighbouring data sets: how often a test tells them apart bounds the true number from below.",
        "ε ≥ ln((p − δ)/q), p ≤ rate of true alarms, q ≥ rate of false alarms",
    ),
    Term(
        "canary",
        "Canary",
        "The row in which the two data sets of an audit differ, as unlike its other self as a row can be.",
        "D = {x, x₂, …, x_n},   D′ = {x′, x₂, …, x_n}",
    ),
)

GROUPS = {"Guarantees": _GUARANTEES, "Noise": _NOISE, "Counting": _COUNTING, "Runs": _RUNS, "Audits": _AUDITS}
TERMS = {term.slug: term for terms in GROUPS.values() for term in terms}
USUAL = ("epsilon", "delta", "rho", "mu", "neighbouring", "sensitivity", "clipping", "composition", "accountant")
SHOWN = ("released", "replicate", "band")  # terms of every run


@st.fragment
def words(key: str, slugs: Sequence[str]) -> None:
    """A button that explains the terms of a page; what it explains is sent when it is opened."""
    box = st.popover("Words", icon=":material/dictionary:", type="tertiary", key=key, on_change="rerun")
    if box.open:
        with box:
            st.markdown("\n".join(_line(TERMS[slug]) for slug in slugs))
            st.page_link(PAGE, label="All words", icon=":material/arrow_forward:", query_params={TABS: TAB})


def listed() -> None:
    """All terms, in groups."""
    for group, terms in GROUPS.items():
        st.header(group, anchor=False)
        st.markdown("\n".join(map(_line, terms)))


def _line(term: Term) -> str:
    return f"- **{term.name}.** {term.sentence}  \n  `{term.formula}`"  # with a line of its own for the formula
