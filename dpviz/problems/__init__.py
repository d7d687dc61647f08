"""What is optimised: problems clip their data and so make Queries of known sensitivity."""

from dpviz.problems.linear import linear_models, quadratic

__all__ = ["linear_models", "quadratic", "regression"]
