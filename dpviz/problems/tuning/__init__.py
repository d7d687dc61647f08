"""Tuning: values that a trained model or a direct computation has on data."""

from dpviz.problems.tuning.tuning import (
    BLOCK,
    LOSSES,
    Evaluations,
    GradientProblem,
    TuningFacts,
    TuningProblem,
    TuningSpecification,
    at_a_time,
    clipped_sum,
    finite,
    gradient_slices,
    loss_cap,
)
