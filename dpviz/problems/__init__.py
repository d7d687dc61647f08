"""Problems to optimise: they clip their data, so that their Queries have a known sensitivity."""

from dpviz.problems.linear import linear_models, quadratic

__all__ = ["linear_models", "quadratic", "regression"]
