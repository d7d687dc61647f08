"""Private mirror descent for saddle points, by sampling vertices (González, Guzmán, Paquette 2024)."""

from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.families.mirror_descent.methods.algorithms import CertifiedSampling, SyntheticData, VertexSampling
from dpviz.families.mirror_descent.methods.baselines import (
    FictitiousPlay,
    GaussianMarginals,
    MultiplicativeWeights,
    NoisyPayoffs,
    TunedReference,
    TwoDraws,
)
from dpviz.families.mirror_descent.methods.bias_reduced import BiasReduced
from dpviz.families.mirror_descent.methods.noisy_gradients import (
    AnytimeSampling,
    EuclideanGradient,
    FrankWolfe,
    GaussianMirrorDescent,
)
