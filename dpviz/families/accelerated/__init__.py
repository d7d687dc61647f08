"""Accelerated gradient methods with Laplace or Gaussian noise (Kuru, Birbil, Gürbüzbalaban, Yıldırım 2022)."""

from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.families.accelerated.algorithms import GradientDescent, HeavyBall, MultistageNesterov, Nesterov

__all__ = ["GradientDescent", "HeavyBall", "MultistageNesterov", "Nesterov", "SmoothConvexBound"]
