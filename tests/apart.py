"""Asynchronous scenes of tests, in an event loop of their own."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor


def apart(scene: Coroutine[None, None, None]) -> None:
    """Play a scene in another thread: where a browser has been driven, this one has an event loop already."""
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, scene).result()
