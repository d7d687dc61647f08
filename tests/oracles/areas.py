"""Areas under the ROC curve of the best attack, in closed form: a second opinion on trade-off curves."""

import math

from scipy.special import ndtr


def pure_auc(epsilon: float) -> float:
    """Largest area under the ROC curve of any attack on an ε-DP algorithm: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-epsilon))


def laplace_auc(epsilon: float) -> float:
    """The same for one release with Laplace noise: 1 - ½ e^-ε (1 + ε/2)."""
    return 1 - math.exp(-epsilon) * (1 + epsilon / 2) / 2


def exponential_auc(eta: float) -> float:
    """The same for one selection of bounded range η: A (A - 1 - ln A)/(A - 1)², A = e^η."""
    if eta < 1e-3:  # the terms cancel; the series breaks off after a negative cubic one
        return 0.5 + eta / 6
    inverse = math.exp(-eta)  # divided through by A², so that nothing overflows
    return (1 - inverse - eta * inverse) / (1 - inverse) ** 2


def gdp_auc(mu: float) -> float:
    """The same for μ-GDP: Φ(μ/√2)."""
    return float(ndtr(mu / math.sqrt(2)))
