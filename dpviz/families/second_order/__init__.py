"""Private second-order solutions of smooth non-convex risks: minima, not just points without slope (Gao and Wright
2023)."""

from dpviz.families.second_order.methods.algorithms import MiniBatch, PerturbedDescent, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch, MiniBatchTrustRegion, TrustRegion
from dpviz.families.second_order.theory import Constants, Ladder
