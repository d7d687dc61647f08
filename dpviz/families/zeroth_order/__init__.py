"""Private optimisation of nonsmooth, nonconvex functions from their values alone (Zhang, Tran, Cutkosky 2024)."""

from dpviz.families.zeroth_order.algorithms import DirectionalDescent, FirstOrder, Naive, VarianceReduced

__all__ = ["DirectionalDescent", "FirstOrder", "Naive", "VarianceReduced"]
