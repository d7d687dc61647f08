"""A noise schedule of one's own: six numbers say its shape, the budget its size."""

from typing import Annotated

import numpy as np
from pydantic import Field

from dpviz.families.accelerated.theory import Noise

LIMIT = 1.6  # powers of ten, up and down
EVEN = (0.0,) * 6
Knots = tuple[Annotated[float, Field(ge=-LIMIT, le=LIMIT)], ...]
SHAPES: dict[str, tuple[float, ...]] = {
    "Even": EVEN,
    "Falling": (0.75, 0.45, 0.15, -0.15, -0.45, -0.75),
    "Rising": (-0.75, -0.45, -0.15, 0.15, 0.45, 0.75),
    "Steps": (0.8, 0.8, 0.0, 0.0, -0.8, -0.8),
}


def log_scales(knots: Knots, iterations: int) -> np.ndarray:
    """(T,) log10 of the noise scale of each step, up to a common summand: straight between the knots."""
    steps = np.arange(iterations)
    return np.asarray(np.interp(steps, np.linspace(0, max(iterations - 1, 1), len(knots)), knots))


def shares(knots: Knots, iterations: int, noise: Noise) -> np.ndarray:
    """(T,) share of the budget of each step, up to a common factor: of ε, which goes with 1/b, or of ρ, with 1/σ²."""
    logs = log_scales(knots, iterations)
    return np.asarray(10.0 ** ((2 if noise == "gaussian" else 1) * (logs.min() - logs)))
