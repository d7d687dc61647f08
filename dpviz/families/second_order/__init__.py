"""Private second-order solutions of smooth non-convex risks: minima, not just flat places (Gao and Wright 2023)."""

from dpviz.families.second_order.algorithms import MiniBatch, ShortStep
from dpviz.families.second_order.constants import Constants, Ladder
from dpviz.families.second_order.escape import PerturbedDescent
from dpviz.families.second_order.line_search import LineSearch
from dpviz.families.second_order.trust_region import MiniBatchTrustRegion, TrustRegion

__all__ = [
    "Constants",
    "Ladder",
    "LineSearch",
    "MiniBatch",
    "MiniBatchTrustRegion",
    "PerturbedDescent",
    "ShortStep",
    "TrustRegion",
]
