"""A packed film of clouds, unpacked as the browser does."""

import json
from typing import Any

import numpy as np


def unpacked(film: bytes) -> dict[str, Any]:
    """Its head; the points of walks (k, R, 2) and the ground's levels as shares of the frame."""
    size = int.from_bytes(film[:4], "little")
    assert size % 4 == 0
    head: dict[str, Any] = json.loads(film[4 : 4 + size])
    numbers = np.frombuffer(film[4 + size :], dtype="<i2") / 32767
    at, steps = 0, len(head["steps"])
    for walk in head["walks"]:
        for name, runs in (("points", walk["runs"]), ("reference_points", walk["plain"])):
            count = steps * runs * 2
            walk[name] = numbers[at : at + count].reshape(steps, runs, 2)
            at += count
    if head["ground"]:
        rows, columns = head["ground"]["shape"]
        head["ground"]["levels"] = numbers[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
    assert at == len(numbers)
    return head
