"""dpviz: see what differential privacy costs an optimisation algorithm.

The names of `__all__` are the public ones; each is imported when it is first used. All other modules may move.

>>> import dpviz
>>> experiment = dpviz.Experiment(dpviz.LogisticRegression(), dpviz.Nesterov(iterations=30), epsilon=2)
>>> round(float(experiment.plans()["DP-NAG"].noise["gradient"][0]), 6)  # a plan reads no data
0.03
"""

from importlib import import_module
from typing import Any

from dpviz import later
from dpviz.version import VERSION

__version__ = VERSION

_NAMES_BY_MODULE = {
    "experiments.experiment": ("Arm", "Experiment"),
    "errors": ("UserError",),
    "experiments.plan": ("Plan",),
    "experiments.results": ("final_table", "marked"),
    "experiments.trace": ("Trace",),
    "sweeps.sweep": ("Sweep",),
    "audits.audit": ("Audit",),
    "privacy.budgets": (
        "ApproximateDP",
        "GaussianDP",
        "NoPrivacy",
        "PureDP",
        "RenyiDP",
        "TradeOff",
        "ZeroConcentratedDP",
    ),
    "privacy.conversions": ("convert",),
    "privacy.accounting.accountants": ("tightest",),
    "library": ("audit", "calibrate", "epsilon", "open"),
    "privacy.calibration": ("calibrate_gaussian", "calibrate_laplace"),
    "privacy.statistics.noisy_means": ("NoisyMeans",),
    "privacy.statistics.analyses": ("Count", "Histogram", "Mean", "Quantile", "Sum"),
    "exports.statistics": ("Statistics", "statistics"),
    "datasets": ("Reading", "read_table", "table"),
    "families": ("presets",),
    "families.accelerated": ("GradientDescent", "HeavyBall", "MultistageNesterov", "Nesterov"),
    "families.mirror_descent": (
        "FictitiousPlay",
        "FrankWolfe",
        "GaussianMirrorDescent",
        "SyntheticData",
        "TwoDraws",
        "VertexSampling",
    ),
    "families.second_order": ("LineSearch", "MiniBatch", "PerturbedDescent", "ShortStep", "TrustRegion"),
    "families.zeroth_order": ("DirectionalDescent", "Naive", "VarianceReduced"),
    "families.bayesian_optimization": ("Gibo", "GlobalSearch", "RandomSearch"),
    "problems.linear.linear_models": ("HuberRegression", "LeastSquares", "LogisticRegression"),
    "problems.linear.quadratic": ("Quadratic",),
    "problems.games.matrix_games": ("MatrixGame",),
    "problems.games.quadratic_games": ("QuadraticGame",),
    "problems.games.group_loss": ("GroupLoss",),
    "problems.games.marginals": ("MarginalQueries",),
    "problems.games.simplex_learning": ("SparseRegression",),
    "problems.private_bounds": ("private_bounds",),
    "problems.nonconvex": ("LogisticTukey", "RobustComponent"),
    "problems.values.black_box": ("CappedRegression", "PhaseRetrieval"),
    "problems.tuning.model_tuning": ("LengthScales",),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}
__all__ = sorted(_MODULE_OF)
later.painter = lambda: import_module(f"{__name__}.plots.displayed")
later.backend = lambda: import_module(f"{__name__}.execution.backend")


def __getattr__(name: str) -> Any:
    if name in ("datasets", "extend", "families"):  # modules that documents and errors name
        return import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        from dpviz.errors import did_you_mean

        raise AttributeError(f"dpviz has no {name!r}.{did_you_mean(name, __all__)} It has: {', '.join(__all__)}.")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
