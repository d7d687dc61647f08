"""Private mirror descent for saddle points, by sampling vertices (González, Guzmán, Paquette 2024)."""

from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.families.mirror_descent.algorithms import SyntheticData, VertexSampling
from dpviz.families.mirror_descent.baselines import GaussianMarginals, MultiplicativeWeights, NoisyPayoffs
from dpviz.families.mirror_descent.best_responses import FictitiousPlay, TwoDraws
from dpviz.families.mirror_descent.bias_reduced import BiasReduced
from dpviz.families.mirror_descent.certified import CertifiedSampling
from dpviz.families.mirror_descent.minimisation import AnytimeSampling, FrankWolfe
from dpviz.families.mirror_descent.noisy_gradients import EuclideanGradient, GaussianMirrorDescent
from dpviz.families.mirror_descent.reference import TunedReference

__all__ = [
    "AnytimeSampling",
    "BiasReduced",
    "CertifiedSampling",
    "EuclideanGradient",
    "FictitiousPlay",
    "FrankWolfe",
    "GameBound",
    "GaussianMarginals",
    "GaussianMirrorDescent",
    "MultiplicativeWeights",
    "NoisyPayoffs",
    "SyntheticData",
    "TunedReference",
    "TwoDraws",
    "VertexSampling",
]
