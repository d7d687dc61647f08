"""Clouds that move: where all runs of some methods are at each recorded step, packed into bytes for the browser."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.landscape import Background

STEPS, FIRST = 60, 20  # recorded steps that are shown at most; all of the first ones, then evenly
SHAPE = 0.85  # height of a frame, as a share of its width
BANDS = 12  # of the ground, equally large
_SEEN = 0.99  # share of all places of all steps that a frame shows; the others lie at its edge
_ROOM = 0.08  # of the range, on either side
_FULL = 32767  # the edge of the frame
_FAR = 1e4  # half frames: an ellipse that large is not seen


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The runs of one method at k steps.

    places : (k, R, 2), finite. plainly : (k, R', 2) those of the method `without`, which has no privacy; None if there
    are none.
    region : centres and half axes (k, 2) of the ellipses that should hold about 90 % of the places, by theory.
    last : the last step that was recorded of it. median, spent : (k,) texts: the median of what is told of the runs,
    and what they have spent so far; or none.
    """

    label: str
    color: str
    places: np.ndarray
    last: int
    plainly: np.ndarray | None = None
    without: str = ""
    region: tuple[np.ndarray, np.ndarray] | None = None
    median: Sequence[str] = ()
    spent: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Animation:
    """What all methods do at the same steps (k,), in the same frame.

    metric : what `Trajectories.median` is the median of; empty if nothing is told. corners : names of places, such as
    those of a triangle; its sides are drawn.
    """

    steps: np.ndarray
    walks: Sequence[Trajectories]
    x: Ruler
    y: Ruler
    metric: str = ""
    ground: Background | None = None
    corners: Sequence[tuple[str, float, float]] = ()

    @property
    def raw(self) -> bool:
        """Whether the ground reads the data."""
        return self.ground is not None and self.ground.raw


def timeline(recorded: Iterable[np.ndarray], most: int = STEPS) -> np.ndarray:
    """The steps of an animation (k,), at most so many: all of the first that any method recorded, then evenly."""
    steps = np.unique(np.concatenate([np.zeros(0, dtype=int), *recorded]))
    if len(steps) <= most:
        return steps
    evenly = np.linspace(steps[FIRST - 1], steps[-1], most - FIRST + 1)
    return np.unique([*steps[:FIRST], *steps[np.searchsorted(steps, evenly)]])


def held(iterations: np.ndarray, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The latest of the recorded values (j, ...) at each step (k, ...): who has stopped stays where it is."""
    return np.asarray(values[np.maximum(np.searchsorted(iterations, steps, side="right") - 1, 0)])


def frame(
    titles: tuple[str, str], clouds: Sequence[np.ndarray], corners: Sequence[tuple[str, float, float]] = ()
) -> tuple[Ruler, Ruler]:
    """The axes that show nearly all places (..., 2); or with corners these, in their true proportions."""
    if corners:
        return _undistorted(titles, np.array([[x, y] for _, x, y in corners]))
    places = np.concatenate([cloud.reshape(-1, 2) for cloud in clouds])
    rulers = []
    for title, values in zip(titles, places.T, strict=True):
        low, high = np.quantile(values.astype(float), [(1 - _SEEN) / 2, (1 + _SEEN) / 2])
        width = (high - low) or abs(high) or 1.0
        rulers.append(Ruler(title, float(low - _ROOM * width), float(high + _ROOM * width), False))
    return rulers[0], rulers[1]


def on_ground(titles: tuple[str, str], ground: Background) -> tuple[Ruler, Ruler]:
    """The axes that show the whole ground."""
    ends = ((float(values[0]), float(values[-1])) for values in (ground.x, ground.y))
    x, y = (Ruler(title, low, high, False) for title, (low, high) in zip(titles, ends, strict=True))
    return x, y


def _undistorted(titles: tuple[str, str], corners: np.ndarray) -> tuple[Ruler, Ruler]:
    """Axes of the same scale around corners (c, 2)."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    across = (1 + 2 * _ROOM) * max(half[0], half[1] / SHAPE)
    rulers = (
        Ruler(title, float(at - reach), float(at + reach), False)
        for title, at, reach in zip(titles, middle, (across, SHAPE * across), strict=True)
    )
    x, y = rulers
    return x, y


def packed(animation: Animation, mark: str, scale: float = 1.0) -> bytes:
    """An animation as the browser takes it: the length of the head in 4 bytes, the head as JSON, then 16-bit numbers.

    These are the places of each method's runs, those without privacy, and at last the height of the ground in bands: in
    the order of the head, little-endian, from -32767 to 32767 from edge to edge of the frame. What lies beyond is at
    its edge.
    mark : the colour of the words "not private". scale : of type and dots.
    """
    numbers, walks = [], []
    for trajectories in animation.walks:
        plainly = np.empty((len(animation.steps), 0, 2)) if trajectories.plainly is None else trajectories.plainly
        numbers += [_numbers(animation, trajectories.places), _numbers(animation, plainly)]
        walks.append(
            {
                "label": trajectories.label,
                "color": trajectories.color,
                "last": trajectories.last,
                "runs": trajectories.places.shape[1],
                "plain": plainly.shape[1],
                "without": trajectories.without,
                "region": None if trajectories.region is None else _region(animation, *trajectories.region),
                "median": list(trajectories.median),
                "spent": list(trajectories.spent),
            }
        )
    if animation.ground is not None:
        numbers.append(np.rint(_levels(animation.ground.values) / BANDS * _FULL).astype("<i2"))
    head = {
        "steps": animation.steps.tolist(),
        "walks": walks,
        "metric": animation.metric,
        "x": _axis(animation.x),
        "y": _axis(animation.y),
        "ground": None if animation.ground is None else {"shape": list(animation.ground.values.shape), "bands": BANDS},
        "corners": [[name, *_shares(animation, np.array(at)).round(4).tolist()] for name, *at in animation.corners],
        "raw": animation.raw,
        "mark": mark,
        "shape": SHAPE,
        "scale": scale,
    }
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join([len(text).to_bytes(4, "little"), text, *(part.tobytes() for part in numbers)])


def _axis(ruler: Ruler) -> dict[str, object]:
    return {"title": ruler.title, "ticks": ruler.ticks}


def _shares(animation: Animation, places: np.ndarray) -> np.ndarray:
    """Places (..., 2) from -1 to 1 along both axes of the frame, and farther for those beyond it."""
    low, high = np.array([animation.x.low, animation.y.low]), np.array([animation.x.high, animation.y.high])
    return np.asarray((2 * places.astype(float) - low - high) / (high - low))


def _numbers(animation: Animation, places: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(_shares(animation, places), -1.0, 1.0) * _FULL).astype("<i2")


def _region(animation: Animation, centres: np.ndarray, half_axes: np.ndarray) -> list[list[float]]:
    """Centre and half axes of each ellipse, in shares of half the frame."""
    half = np.array([animation.x.high - animation.x.low, animation.y.high - animation.y.low]) / 2
    found = np.concatenate([_shares(animation, centres), half_axes / half], axis=1)
    return [[round(number, 4) for number in row] for row in np.clip(found, -_FAR, _FAR).tolist()]


def _levels(values: np.ndarray) -> np.ndarray:
    """In which band each value lies, from 0 to BANDS, with what is between: each band is equally large."""
    edges = np.quantile(values, np.linspace(0, 1, BANDS + 1))
    return np.interp(values, np.maximum.accumulate(edges), np.arange(BANDS + 1))
