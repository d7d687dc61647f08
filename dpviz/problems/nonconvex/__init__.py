"""Smooth risks that are not convex."""

from dpviz.problems.nonconvex.nonconvex import (
    DIRECTIONS,
    LogisticTukey,
    MarginModel,
    NonconvexModel,
    RobustComponent,
    SigmoidTukey,
    clip_row_norms,
    random_start,
)
