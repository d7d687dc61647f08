"""A server under load: how long a slider move takes while others compute, and what is left when they have gone.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_load.py --benchmark-only

The server is started as the README says; what it is asked for is drawn from a fixed seed. Visitors share the machine
with it, so all times are upper bounds. Targets on two quiet processors: 95 % of the moves of 20 visitors within half a
second and four times those of one alone, of 40 within a second; with runs at every change, the last result within 20.
"""

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import numpy as np
import pytest

from dpviz.ui.experiment import texts
from dpviz.ui.families import FAMILIES, Entry
from tests.benchmarks.processes import children, processor_seconds, resident
from tests.benchmarks.visitors import Stops, Visitor
from tests.browser.serving import ROOT, Server, serve

SECONDS = 25.0  # that sliders are moved for
FEW_SECONDS = 60.0  # by so few: below, p95 would be the worst of all moves
MOVES, MOST = 40, 5.0  # of a slider, to see what one costs; and how many times what Streamlit takes itself
ROUNDS = 3  # of both in turn, as one round cannot tell 4.5 times from 5.3
PAUSE = 3.0, 5.0  # seconds between two moves of a visitor
LONG = {"iterations": "2000", "uniform_rows": "100000", "follow": "false"}
SMALL = {"iterations": "20", "replicates": "2", "uniform_rows": "1000"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Warm: the page was drawn, and run, by a visitor who has left."""
    with serve() as server:

        async def first() -> None:
            async with Visitor(server.url, "accelerated") as visitor:
                await visitor.until(lambda page: page.says("Done:"))

        asyncio.run(first())
        yield server
        assert "Traceback" not in server.printed()


@asynccontextmanager
async def visitors(
    server: Server, number: int, families: Sequence[Entry] = FAMILIES[:1], **query: str
) -> AsyncIterator[list[Visitor]]:
    """That many, one after the other; each has a seed of its own, so that no run is another visitor's."""
    async with AsyncExitStack() as stack:
        found = []
        for k in range(number):
            family, settings = families[k % len(families)], {"seed": str(k + 1), **query}
            named = {f"{family.page().prefix}_{name}": value for name, value in settings.items()}
            found.append(Visitor(server.url, family.name, **named))
        for visitor in found:
            await stack.enter_async_context(visitor)
        yield found
        assert [text for visitor in found for text in visitor.exceptions] == []


@asynccontextmanager
async def two_runs(server: Server) -> AsyncIterator[Callable[[], bool]]:
    """Two visitors keep a long run going each. Gives a function that says whether both are under way."""
    async with visitors(server, 2, **LONG) as holders:

        async def hold(holder: Visitor) -> None:
            seed = int(holder.query["accel_seed"])
            while True:
                await holder.press("Run")
                await holder.until(lambda page: page.controls["Stop"].disabled, np.inf)
                await holder.enter("Seed", seed := seed + 100)

        tasks = [asyncio.create_task(hold(holder)) for holder in holders]
        for holder in holders:
            await holder.until(lambda page: "Stop" in page.controls and not page.controls["Stop"].disabled)
        yield lambda: all(not holder.controls["Stop"].disabled for holder in holders)
        for task, holder in zip(tasks, holders, strict=True):
            task.cancel()
            await holder.press("Stop")


async def at_intervals(move: Callable[[random.Random], Awaitable[float]], seed: int, seconds: float) -> list[float]:
    """What `move` returns, called with a pause between, for that long."""
    chance, ends = random.Random(seed), time.monotonic() + seconds
    await asyncio.sleep(chance.uniform(0, PAUSE[1]))  # not all in one moment
    took = []
    while time.monotonic() < ends:
        began = time.monotonic()
        took.append(await move(chance))
        await asyncio.sleep(max(0.0, chance.uniform(*PAUSE) - (time.monotonic() - began)))
    return took


async def any_move(visitor: Visitor, chance: random.Random) -> float:
    """Move any of the sliders above the picture, or, one time in ten, change the kind of guarantee."""
    if chance.random() < 0.1:
        return await visitor.choose(
            "Guarantee", chance.choice([one.content for one in visitor.controls["Guarantee"].options])
        )
    sliders = [label for label, control in visitor.controls.items() if isinstance(control, Stops)]
    label = chance.choice(sliders)
    return await visitor.move(label, chance.choice(visitor.controls[label].options))


async def moved(movers: list[Visitor], seconds: float) -> list[float]:
    """Every visitor moves a control every few seconds; the seconds until each page was drawn."""
    took = await asyncio.gather(*(at_intervals(partial(any_move, who), k, seconds) for k, who in enumerate(movers)))
    return [second for one in took for second in one]


def has_its_result(page: Visitor) -> bool:
    """Whether the picture is of these settings; its run may go on."""
    return not page.says(texts.EARLIER)


async def a_class(server: Server, number: int, runs: bool, seconds: float) -> tuple[list[float], list[float], float]:
    """Of visitors spread over the five pages: seconds until each move was drawn, and until each sees the result of the
    last one; processor seconds of a move. They arrive one after the other, before anybody moves."""
    async with visitors(server, number, FAMILIES, follow=str(runs).lower()) as movers:
        used = processor_seconds(server.process.pid)
        took = await moved(movers, seconds)
        used = (processor_seconds(server.process.pid) - used) / len(took)
        return took, await asyncio.gather(*(who.until(has_its_result) for who in movers)) if runs else [], used


@pytest.mark.parametrize(
    ("number", "busy", "runs"),
    [(20, False, False), (20, True, False), (40, False, False), (20, False, True)],
    ids=["twenty", "twenty_two_runs", "forty", "twenty_who_run"],
)
def test_a_class_moves_all_sliders(report, server: Server, number: int, busy: bool, runs: bool) -> None:
    """At the presets' own settings, on all five pages, beside what one visitor waits in the same minutes."""

    async def all_move() -> tuple[list[float], list[float], list[float], float, float]:
        alone, _, _ = await a_class(server, 1, runs, FEW_SECONDS)
        async with AsyncExitStack() as stack:
            both = await stack.enter_async_context(two_runs(server)) if busy else lambda: True
            took, last, used = await a_class(server, number, runs, SECONDS)
            return alone, took, last, used, float(both())

    alone, took, last, used, busy_to_the_end = report.benchmark.pedantic(lambda: asyncio.run(all_move()), rounds=1)
    one, many = (float(np.quantile(each, 0.95)) for each in (alone, took))
    report(p50_s=statistics.median(took), p95_s=many, p95_of_one_s=one, times_one=many / one, moves=len(took))
    report(last_result_s=max(last, default=0.0), processor_seconds_of_a_move=used, both_active=busy_to_the_end)


async def cost(url: str, process: int, page: str, slider: str, **query: str) -> tuple[float, float, float]:
    """Of a move: the server's processor seconds, the messages and the bytes that it sends."""
    async with Visitor(url, page, **query) as visitor:
        options = list(visitor.controls[slider].options)
        for k in range(4):
            await visitor.move(slider, options[k % len(options)])
        before = processor_seconds(process), visitor.messages, visitor.bytes
        for k in range(MOVES):
            await visitor.move(slider, options[(7 * k) % len(options)])
            await asyncio.sleep(0.1)
        after = processor_seconds(process), visitor.messages, visitor.bytes
        assert not visitor.exceptions
        return tuple((b - a) / MOVES for a, b in zip(before, after, strict=True))  # type: ignore[return-value]


def test_what_a_move_without_a_run_costs(report, server: Server) -> None:
    """On every family's page, beside what Streamlit takes for as many controls alone: at most five times that."""
    symbols = {"pure": "ε", "approximate": "ε", "concentrated": "ρ", "gaussian": "μ"}

    async def all_pages() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        pages, floors = {}, {}
        with serve(app=ROOT / "tests" / "benchmarks" / "floor.py") as floor:
            for family in FAMILIES:
                page = family.page()
                slider, query = f"Privacy budget {symbols[page.currency]}", {f"{page.prefix}_follow": "false"}
                pairs = [
                    (
                        await cost(server.url, server.process.pid, family.name, slider, **query),
                        await cost(floor.url, floor.process.pid, "", "Slider 0"),
                    )
                    for _ in range(ROUNDS)
                ]
                pages[family.name], floors[family.name] = np.mean(pairs, axis=0)
        return pages, floors

    pages, floors = report.benchmark.pedantic(lambda: asyncio.run(all_pages()), rounds=1)
    times = {name: pages[name][0] / floors[name][0] for name in pages}
    report(**{f"{name}_ms": 1000 * seconds for name, (seconds, _, _) in pages.items()})
    report(**{f"{name}_floor_ms": 1000 * seconds for name, (seconds, _, _) in floors.items()})
    report(**{f"{name}_messages": messages for name, (_, messages, _) in pages.items()})
    report(**{f"{name}_kB": size / 1000 for name, (_, _, size) in pages.items()})
    report(**{f"{name}_times_floor": many for name, many in times.items()})
    assert max(times.values()) <= MOST


async def used(server: Server, runs: int, switches: int, sessions: int, seed: int) -> None:
    """Visitors compute, change pages, come and go."""
    async with visitors(server, 1, **SMALL) as (visitor,):
        for k in range(runs):
            await visitor.enter("Seed", seed + k)
            await visitor.until(lambda page: page.says("Done:"))
        pages = ("mirror_descent", "budget_planner", "", "accelerated")
        for k in range(switches):
            await visitor.go_to(pages[k % len(pages)])
    for k in range(sessions):
        async with Visitor(server.url, ("accelerated", "mirror_descent")[k % 2], accel_seed=str(seed + k)):
            pass


async def settled(server: Server) -> tuple[float, float]:
    """Bytes of the server and of its workers once those who left are forgotten: the least of a few seconds."""
    found = []
    for _ in range(8):
        await asyncio.sleep(1.0)
        async with Visitor(server.url, ""):  # who comes makes the server forget who has gone
            pass
        found.append((resident(server.process.pid), sum(map(resident, children(server.process.pid)))))
    return min(found)


def test_memory_returns(report) -> None:
    """After 200 runs, 200 page switches and 60 sessions the server and its workers are as large as before."""

    async def in_turns(server: Server) -> list[tuple[float, float]]:
        await used(server, runs=40, switches=20, sessions=8, seed=1000)  # fills what is kept for all visitors
        before = await settled(server)
        await used(server, runs=200, switches=200, sessions=60, seed=5000)
        return [before, await settled(server)]

    with serve("--server.disconnectedSessionTTL", "2") as server:
        (before, working), (after, worked) = report.benchmark.pedantic(lambda: asyncio.run(in_turns(server)), rounds=1)
        assert "Traceback" not in server.printed()
    report(before_mib=before / 2**20, after_mib=after / 2**20)
    report(workers_before_mib=working / 2**20, workers_after_mib=worked / 2**20)
    assert after <= 1.15 * before and worked <= 1.15 * working
