"""A family of one method, as small as a family can be: the example of CONTRIBUTING.md, with a page of its own."""

from dpviz.families.momentum.algorithms import MomentumDescent

__all__ = ["MomentumDescent"]
