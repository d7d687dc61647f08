"""Planes in which the replicates of a run are shown: functions of what methods release, and of settings."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpviz.problems.base import Plane

_TINY = float(np.finfo(float).tiny)
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])


def coordinates(one: int, other: int, titles: tuple[str, str]) -> Plane:
    """Two coordinates of the output x."""
    return Plane(titles, lambda output: output["x"][:, [one, other]])


def first_two(titles: Sequence[str]) -> Plane | None:
    """The first two coordinates, given what they are called; None where there is one only."""
    return coordinates(0, 1, (titles[0], titles[1])) if len(titles) > 1 else None


def ball(radius: float, d: int, titles: Sequence[str]) -> Plane | None:
    """The first two of the d coordinates of w = r (u₊ - u₋) in the ℓ1 ball, where the output is u = (u₊, u₋)."""
    plane = first_two(titles)
    if plane is None:
        return None

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        u = output["x"]
        return np.asarray(radius * (u[:, :2] - u[:, d : d + 2]))

    return Plane(plane.titles, project)


def triangle(names: tuple[str, str, str], whose: str) -> Plane:
    """The mixed strategies of three: weights as centres of mass of the corners. whose : weights they are."""
    titles = f"At a corner, one has all of {whose} weight", "In the middle, all three have the same"
    corners = tuple((name, x, y) for name, (x, y) in zip(names, _CORNERS.tolist(), strict=True))
    return Plane(titles, lambda output: output["x"] @ _CORNERS, corners)


def both(names: tuple[str, str]) -> Plane:
    """The mixed strategies of two players with two strategies each: the weights of the first ones, of these names."""
    x, y = names
    titles = f"Player x: weight on {x}", f"Player y: weight on {y}"
    return Plane(titles, lambda output: np.column_stack([output["x"][:, 0], output["y"][:, 0]]))


def concentration(good: slice | None, words: str, whose: str) -> Plane:
    """How much of the weight is on those strategies that are good, and how widely all of it is spread.

    good : which, if that is known without data; None: the strategy that has most. words : what the weight is on; whose
    weights they are.
    """

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        x = output["x"]
        weight = x.max(axis=1) if good is None else x[:, good].sum(axis=1)
        spread = -np.einsum("rj,rj->r", x, np.log(np.maximum(x, _TINY)))  # where x is 0, so is the product
        return np.column_stack([weight, spread])

    return Plane((f"Weight on {words}", f"Entropy of {whose} weights (0: all on one)"), project)


def shares(one: np.ndarray, other: np.ndarray, titles: tuple[str, str]) -> Plane:
    """What a histogram x over |Z| cells says of two sets of them, (|Z|,) bool each."""
    sets = np.column_stack([one, other]).astype(float)
    return Plane(titles, lambda output: output["x"] @ sets)
