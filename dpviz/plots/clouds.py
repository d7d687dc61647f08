"""Moving clouds: positions of all runs of some methods at each recorded step, packed into bytes for the browser."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.landscape import Background

STEPS, FIRST = 60, 20  # largest number of steps in an animation; number of first steps that it has all of
SHAPE = 0.85  # height of a frame, as a share of its width
BANDS = 12  # bands of the ground, equally large
_VISIBLE = 0.99  # share of all positions inside the frame; the others are drawn at its edge
_ROOM = 0.08  # share of the range, on either side
_FULL = 32767  # number at the edge of the frame
_FAR = 1e4  # half frames: an ellipse that large is invisible


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The runs of one method at k steps.

    places : (k, R, 2), finite positions.
    plainly : (k, R', 2) positions of the method `without`, which has no privacy; None if there is none.
    region : centres and half axes (k, 2) of the ellipses that should hold about 90 % of the positions, by theory.
    last : last step that was recorded. median, spent : (k,) texts: the median of the animation's metric, and the
        privacy spent so far; or none.
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
    """The runs of all methods at the same steps (k,), in the same frame.

    metric : name of the quantity in `Trajectories.median`; empty if there is none.
    corners : named points, such as those of a triangle; its sides are drawn.
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


def timeline(recorded: Iterable[np.ndarray], max_steps: int = STEPS) -> np.ndarray:
    """Return the steps of an animation (k,), at most `max_steps`: all of the first recorded by any method, then
    evenly."""
    steps = np.unique(np.concatenate([np.zeros(0, dtype=int), *recorded]))
    if len(steps) <= max_steps:
        return steps
    evenly = np.linspace(steps[FIRST - 1], steps[-1], max_steps - FIRST + 1)
    return np.unique([*steps[:FIRST], *steps[np.searchsorted(steps, evenly)]])


def held(iterations: np.ndarray, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the latest of the recorded values (j, ...) at each step (k, ...): a run that has stopped stays where it
    is."""
    return np.asarray(values[np.maximum(np.searchsorted(iterations, steps, side="right") - 1, 0)])


def frame(
    titles: tuple[str, str], clouds: Sequence[np.ndarray], corners: Sequence[tuple[str, float, float]] = ()
) -> tuple[Ruler, Ruler]:
    """Return axes that show nearly all positions (..., 2); or, with corners, these in their true proportions."""
    if corners:
        return _undistorted(titles, np.array([[x, y] for _, x, y in corners]))
    points = np.concatenate([cloud.reshape(-1, 2) for cloud in clouds])
    rulers = []
    for title, values in zip(titles, points.T, strict=True):
        low, high = np.quantile(values.astype(float), [(1 - _VISIBLE) / 2, (1 + _VISIBLE) / 2])
        width = (high - low) or abs(high) or 1.0
        rulers.append(Ruler(title, float(low - _ROOM * width), float(high + _ROOM * width), False))
    return rulers[0], rulers[1]


def on_ground(titles: tuple[str, str], ground: Background) -> tuple[Ruler, Ruler]:
    """Return axes that show the whole ground."""
    ends = ((float(values[0]), float(values[-1])) for values in (ground.x, ground.y))
    x, y = (Ruler(title, low, high, False) for title, (low, high) in zip(titles, ends, strict=True))
    return x, y


def _undistorted(titles: tuple[str, str], corners: np.ndarray) -> tuple[Ruler, Ruler]:
    """Return axes of the same scale around corners (c, 2)."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    across = (1 + 2 * _ROOM) * max(half[0], half[1] / SHAPE)
    rulers = (
        Ruler(title, float(centre - reach), float(centre + reach), False)
        for title, centre, reach in zip(titles, middle, (across, SHAPE * across), strict=True)
    )
    x, y = rulers
    return x, y


def packed(animation: Animation, mark: str, scale: float = 1.0) -> bytes:
    """Return an animation for the browser: the length of the head in 4 bytes, the head as JSON, then 16-bit numbers.

    These are the positions of each method's runs, those without privacy, and at last the height of the ground in bands:
    in the order of the head, little-endian, from -32767 to 32767 from edge to edge of the frame. Positions beyond are
    at its edge.

    mark : colour of the mark "not private". scale : factor of type and dots.
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
        "corners": [[name, *_shares(animation, np.array(xy)).round(4).tolist()] for name, *xy in animation.corners],
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


def _shares(animation: Animation, points: np.ndarray) -> np.ndarray:
    """Return positions (..., 2) in half frames: from -1 to 1 along both axes, and farther outside the frame."""
    low, high = np.array([animation.x.low, animation.y.low]), np.array([animation.x.high, animation.y.high])
    return np.asarray((2 * points.astype(float) - low - high) / (high - low))


def _numbers(animation: Animation, points: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(_shares(animation, points), -1.0, 1.0) * _FULL).astype("<i2")


def _region(animation: Animation, centres: np.ndarray, half_axes: np.ndarray) -> list[list[float]]:
    """Return centre and half axes of each ellipse, in half frames."""
    half = np.array([animation.x.high - animation.x.low, animation.y.high - animation.y.low]) / 2
    ellipses = np.concatenate([_shares(animation, centres), half_axes / half], axis=1)
    return [[round(number, 4) for number in row] for row in np.clip(ellipses, -_FAR, _FAR).tolist()]


def _levels(values: np.ndarray) -> np.ndarray:
    """Return the band of each value, from 0 to BANDS, with fractions in between: each band is equally large."""
    edges = np.quantile(values, np.linspace(0, 1, BANDS + 1))
    return np.interp(values, np.maximum.accumulate(edges), np.arange(BANDS + 1))
