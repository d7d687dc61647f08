"""Private tuning: choice of hyper-parameters on validation data with privacy for each of its users (Sopa et al.
2025)."""

from dpviz.families.bayesian_optimization.algorithms import Gibo, GlobalSearch, GradientDescent, RandomSearch
from dpviz.families.bayesian_optimization.batches import Placing
from dpviz.families.bayesian_optimization.posterior import Surrogate

__all__ = ["Gibo", "GlobalSearch", "GradientDescent", "Placing", "RandomSearch", "Surrogate"]
