"""The terms of the field that pages use: each in one sentence and one formula, here and nowhere else."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A term of the field.

    slug : its name in the code. name : as it is written, with its symbol. sentence, formula : what it means, in one of
    each. D and D′ are neighbouring data sets, M is an algorithm, S a set of outcomes. code : what computes it, below
    dpviz. said : how pages call it, whatever the case.
    """

    slug: str
    name: str
    sentence: str
    formula: str
    code: str
    said: tuple[str, ...]


_GUARANTEES = (
    Term(
        "epsilon",
        "ε, pure differential privacy",
        "Replacing one row changes the probability of any outcome by a factor of at most e^ε.",
        "P[M(D) ∈ S] ≤ e^ε P[M(D′) ∈ S]",
        "privacy.budgets.PureDP.tradeoff",
        ("ε", "epsilon", "pure ε", "pure differential privacy"),
    ),
    Term(
        "delta",
        "δ, as in (ε, δ)",
        "What may be missing from the bound with ε, as a probability: it belongs far below 1/n.",
        "P[M(D) ∈ S] ≤ e^ε P[M(D′) ∈ S] + δ",
        "privacy.budgets.ApproximateDP.tradeoff",
        ("δ", "delta", "(ε, δ)"),
    ),
    Term(
        "rho",
        "ρ, zero-concentrated DP (zCDP)",
        "All Rényi divergences lie below one line, so what releases cost adds up.",
        "D_α(M(D) ‖ M(D′)) ≤ α ρ, for all α > 1",
        "privacy.budgets.ZeroConcentratedDP.to_renyi",
        ("ρ", "zCDP", "zero-concentrated DP"),
    ),
    Term(
        "mu",
        "μ, Gaussian DP (GDP)",
        "No test for one row does better than telling two normal distributions apart whose means differ by μ.",
        "f(a) ≥ Φ(Φ⁻¹(1 − a) − μ)",
        "privacy.budgets.GaussianDP.tradeoff",
        ("GDP", "μ-GDP", "Gaussian DP"),
    ),
    Term(
        "renyi",
        "Rényi DP",
        "A bound on one moment of the privacy loss, of order α.",
        "D_α(P ‖ Q) = ln E_Q[(P/Q)^α] / (α − 1)",
        "privacy.accounting.closed_forms.laplace_rdp",
        ("Rényi", "Rényi DP", "Rényi divergence", "Rényi divergences"),
    ),
    Term(
        "neighbouring",
        "Neighbouring data sets",
        "Two data sets that differ in one replaced row; how many rows there are is public.",
        "D ~ D′: the same n, and Dᵢ ≠ D′ᵢ for one i",
        "experiments.audit.Neighbours",
        ("neighbouring data sets", "neighbouring", "neighbours", "one row replaced", "replace-one"),
    ),
    Term(
        "profile",
        "Privacy profile",
        "The smallest δ for every ε: all that can be said about an algorithm in the form (ε, δ).",
        "δ(ε) = sup over D ~ D′ and S of P[M(D) ∈ S] − e^ε P[M(D′) ∈ S]",
        "privacy.accounting.closed_forms.gdp_delta",
        ("privacy profile", "profile"),
    ),
    Term(
        "tradeoff",
        "Trade-off curve",
        "The fewest misses that a test for one row can have at every rate of false alarms.",
        "f(a) = inf { rate of misses : rate of false alarms ≤ a }",
        "privacy.tradeoffs.tradeoff",
        ("trade-off curve", "trade-off curves"),
    ),
    Term(
        "advantage",
        "Advantage",
        "Of the best test for one row, the rate of true alarms minus that of false alarms.",
        "max over a of 1 − a − f(a) = δ(0)",
        "privacy.tradeoffs.advantage",
        ("advantage",),
    ),
)

_NOISE = (
    Term(
        "sensitivity",
        "Sensitivity",
        "The farthest that a query's value can move when one row is replaced.",
        "Δ = max over D ~ D′ of ‖q(D) − q(D′)‖",
        "privacy.noisy_means.NoisyMeans.sensitivity",
        ("sensitivity", "sensitivities"),
    ),
    Term(
        "clipping",
        "Clipping",
        "Rows that count for more are scaled down, so that the sensitivity holds whatever the data are.",
        "g ↦ g · min(1, C/‖g‖)",
        "problems.tuning.clipped_sum",
        ("clip", "clips", "clipped", "clipping"),
    ),
    Term(
        "mechanism",
        "Mechanism",
        "What releases a query's value with noise, or a choice by chance, and books what that costs.",
        "M(D) = q(D) + noise",
        "privacy.mechanisms.Mechanisms",
        ("mechanism", "mechanisms"),
    ),
    Term(
        "laplace",
        "Laplace mechanism",
        "Noise in every coordinate, with a scale from the sensitivity in the L1 norm; it gives pure ε.",
        "b = Δ₁/ε, density e^(−|z|/b) / (2b)",
        "privacy.mechanisms.noise_scale",
        ("Laplace", "Laplace mechanism", "Laplace noise"),
    ),
    Term(
        "gaussian",
        "Gaussian mechanism",
        "Normal noise in every coordinate, from the sensitivity in the L2 norm; it gives μ, and no pure ε.",
        "σ = Δ₂/μ, ρ = μ²/2",
        "privacy.mechanisms.noise_scale",
        ("Gaussian mechanism", "Gaussian noise"),
    ),
    Term(
        "exponential",
        "Exponential mechanism",
        "One of several options is drawn, those with a higher score u more often; Δ is how far apart scores can move.",
        "P[r] ∝ exp(ε u(r)/Δ)",
        "privacy.mechanisms.Mechanisms.exponential",
        ("exponential mechanism", "vertex sampling"),
    ),
    Term(
        "tree",
        "Running sums, binary tree",
        "Sums up to every step are put together from few noisy nodes, so one row touches few of them.",
        "T steps: at most 1 + ⌈log₂ T⌉ nodes for a row, and for a sum",
        "privacy.matrix_factorisation.binary_tree",
        ("running sum", "running sums", "binary tree"),
    ),
    Term(
        "leaf",
        "Leaf, of a tree",
        "What one step adds to a running sum: the part of the rows that it uses, and that no other step uses.",
        "a sum at t needs one node for each digit 1 of t, which together hold the leaves 1, …, t",
        "privacy.matrix_factorisation.tree_nodes",
        ("leaf", "node", "nodes"),
    ),
    Term(
        "sparse_vector",
        "Sparse vector",
        "Of many questions, says which is the first whose answer exceeds a threshold; the others cost nothing.",
        "first i with qᵢ(D) + noise ≥ θ + noise",
        "privacy.mechanisms.Mechanisms.above_threshold",
        ("sparse vector",),
    ),
)

_COUNTING = (
    Term(
        "composition",
        "Composition",
        "What several releases of the same rows cost together.",
        "ε₁ + … + ε_T,   ρ₁ + … + ρ_T,   μ = √(μ₁² + … + μ_T²)",
        "privacy.accounting.accountants.total",
        ("composition", "compose", "composes", "composed"),
    ),
    Term(
        "amplification",
        "Amplification by sampling",
        "A row that is probably not in a secret batch is harder to detect.",
        "m of n rows: ε′ = ln(1 + (m/n)(e^ε − 1))",
        "privacy.accounting.closed_forms.amplify",
        ("amplification", "amplified", "without replacement"),
    ),
    Term(
        "schedule",
        "Schedule",
        "How a budget is split over the steps: who gets more of it has less noise.",
        "ε₁ + … + ε_T = ε, b_t = Δ₁/ε_t",
        "privacy.calibration.calibrate_laplace",
        ("schedule", "schedules"),
    ),
    Term(
        "accountant",
        "Accountant",
        "What reads the releases of a run and proves what they cost together; the smallest proof holds.",
        "ε(δ) = min over accountants",
        "privacy.accounting.accountants.tightest",
        ("accountant", "accountants", "accounting"),
    ),
    Term(
        "loss_distribution",
        "Privacy loss distribution (PLD)",
        "How strongly an outcome speaks for one of two neighbours is random; the losses of several releases add up.",
        "L = ln P(x)/Q(x), x ~ P;   δ(ε) = E[(1 − e^(ε − L))₊]",
        "privacy.accounting.pld.epsilon_at",
        ("privacy loss distribution", "privacy loss distributions", "PLD", "privacy loss"),
    ),
)

_RUNS = (
    Term(
        "released",
        "Released, and diagnostic",
        "Released values follow from what mechanisms gave out; diagnostics read the raw rows.",
        "released = g(M(D)),   diagnostic = g(D)",
        "experiments.trace.Trace.visible",
        ("released", "diagnostic", "diagnostics", "not private"),
    ),
    Term(
        "replicate",
        "Replicate",
        "One of R hypothetical runs with noise of its own; whoever publishes has one.",
        "r = 1, …, R",
        "experiments.trace.Trace",
        ("replicate", "replicates", "repeats"),
    ),
    Term(
        "band",
        "Band",
        "Where eight of ten runs lie at each step.",
        "from the 10 % to the 90 % quantile over the R runs",
        "experiments.results.quantiles",
        ("10-90 % band", "10-90 % bands"),
    ),
    Term(
        "excess_loss",
        "Excess loss",
        "How far a model is above the best one of its kind.",
        "F(x_t) − F*",
        "problems.quadratic.QuadraticProblem.evaluate",
        ("excess loss",),
    ),
    Term(
        "smoothness",
        "Smoothness L",
        "The gradient changes by at most L times the distance, so steps of 1/L never overshoot.",
        "‖∇F(x) − ∇F(y)‖ ≤ L ‖x − y‖",
        "problems.quadratic.QuadraticProblem.mean_gradient",
        ("smoothness",),
    ),
    Term(
        "momentum",
        "Momentum β",
        "A share of the last step is taken once more: faster on long slopes, but noise is taken once more, too.",
        "x_t = x_{t−1} − α g̃_t + β (x_{t−1} − x_{t−2})",
        "families.accelerated.algorithms.HeavyBall.update",
        ("momentum", "heavy ball"),
    ),
    Term(
        "duality_gap",
        "Duality gap",
        "What both players of a game could still gain by answering each other best; 0 at an equilibrium.",
        "max over y′ of F(x, y′) − min over x′ of F(x′, y)",
        "problems.matrix_games.bilinear_gap",
        ("duality gap", "equilibrium"),
    ),
    Term(
        "exponential_weights",
        "Exponential weights",
        "The more a strategy would have lost so far, the less often it is played.",
        "x_j ∝ e^(−τ · (sum of what j would have lost))",
        "families.mirror_descent.algorithms.softmax",
        ("exponential weights", "multiplicative weights"),
    ),
    Term(
        "marginal",
        "Marginal",
        "The shares of the rows in the cells of a table over a few of the columns.",
        "q_c(D) = number of i with Dᵢ in cell c, over n",
        "problems.marginals.Marginals.answers",
        ("marginal", "marginals"),
    ),
    Term(
        "goldstein",
        "Goldstein stationarity",
        "Near the point, gradients cancel: some mix of those within a distance r is short. For functions with kinks.",
        "min { ‖g‖ : g ∈ conv ∇F(y), ‖y − x‖ ≤ r } ≤ η",
        "problems.least_norm.least_norm",
        ("Goldstein stationarity", "Goldstein"),
    ),
    Term(
        "second_order",
        "Second-order stationarity",
        "The gradient is small and nothing bends downwards by much: a minimum, not a pass.",
        "‖∇F(x)‖ ≤ α and λ_min(∇²F(x)) ≥ −β",
        "families.second_order.measure.solutions",
        ("second-order solution", "second-order solutions", "second-order stationarity"),
    ),
    Term(
        "negative_curvature",
        "Curvature, negative curvature",
        "How the ground bends along its worst direction: below 0 it falls there, and where it is flat, that is a pass.",
        "λ_min(∇²F(x)) = min over ‖p‖ = 1 of pᵀ ∇²F(x) p",
        "problems.nonconvex_risk.NonconvexRisk.evaluate",
        ("curvature", "negative curvature"),
    ),
    Term(
        "surrogate",
        "Gaussian process, surrogate",
        "What is believed of a function from its values y at a few points X; k says how alike two points are.",
        "slope: ∇k(x, X) K⁻¹ y, with K = k(X, X) + noise",
        "families.bayesian_optimization.posterior.Local",
        ("Gaussian process", "surrogate"),
    ),
    Term(
        "bias_level",
        "Bias level ω",
        "Where a step stops asking: the share of a slope's variance that the values so far leave unexplained.",
        "tr cov(∇F given values at X) ≤ ω · tr cov(∇F)",
        "families.bayesian_optimization.posterior.Local.unexplained",
        ("bias level", "bias levels"),
    ),
    Term(
        "acquisition",
        "Bayesian optimisation, acquisition",
        "The next point is where the value may be lowest, by what is known so far: low on average, or very uncertain.",
        "next x = arg min of mean(x) − √β · deviation(x)",
        "families.bayesian_optimization.baselines.Surface.lowest",
        ("acquisition", "Bayesian optimisation"),
    ),
)

_AUDITS = (
    Term(
        "audit",
        "Audit",
        "Many runs on two neighbouring data sets: how often a test tells them apart bounds the true number from below.",
        "ε ≥ ln((p − δ)/q), p ≤ rate of true alarms, q ≥ rate of false alarms",
        "privacy.audit.least_epsilon",
        ("audit", "audits"),
    ),
    Term(
        "canary",
        "Canary",
        "The row in which the two data sets of an audit differ, as unlike its other self as a row can be.",
        "D = {x, x₂, …, x_n},   D′ = {x′, x₂, …, x_n}",
        "experiments.audit.Case",
        ("canary", "canaries"),
    ),
    Term(
        "clopper_pearson",
        "Clopper-Pearson bounds",
        "A range for a rate after k hits in N runs that is right at least as often as promised, whatever the rate.",
        "p_low: P[Bin(N, p_low) ≥ k] = β,   p_high: P[Bin(N, p_high) ≤ k] = β",
        "privacy.audit.clopper_pearson",
        ("Clopper-Pearson", "Clopper and Pearson", "Clopper"),
    ),
)

GROUPS = {"Guarantees": _GUARANTEES, "Noise": _NOISE, "Counting": _COUNTING, "Runs": _RUNS, "Audits": _AUDITS}
TERMS = {term.slug: term for terms in GROUPS.values() for term in terms}
