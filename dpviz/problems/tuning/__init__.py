"""Tuning: minimising the users' losses of a trained model, or of a direct computation, at settings to be tuned."""

from dpviz.problems.tuning.tuning import (
    BLOCK,
    LOSSES,
    Evaluations,
    GradientProblem,
    TuningFacts,
    TuningProblem,
    TuningSpecification,
    clipped_sum,
    gradient_slices,
    loss_cap_field,
    points_at_once,
    replace_nonfinite,
)
