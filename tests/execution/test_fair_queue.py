"""The fair line: one visitor after the other, and who is told to wait is told rightly how long."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from dpviz.execution.executors import FairQueue


def all_of(line: FairQueue[str]) -> list[str]:
    found = []
    while any(line._urgent.values()):
        found.append(line.take() or "")
    return found


def test_visitors_take_turns_and_so_do_the_tasks_of_each() -> None:
    line: FairQueue[str] = FairQueue()
    line.put("a", "sweep", ["a1", "a2", "a3", "a4"])
    line.put("b", "sweep", ["b1", "b2"])
    line.put("a", "run", ["A"])
    line.put("c", "run", ["c"])
    assert all_of(line) == ["a1", "b1", "c", "A", "b2", "a2", "a3", "a4"]


def test_who_comes_again_is_last() -> None:
    line: FairQueue[str] = FairQueue()
    for visitor in "ab":
        line.put(visitor, "one", [f"{visitor}1"])
    assert line.take() == "a1"
    line.put("a", "two", ["a2"])
    assert all_of(line) == ["b1", "a2"]


def test_who_takes_something_back_keeps_the_place_until_it_comes() -> None:
    line: FairQueue[str] = FairQueue()
    for visitor in "abc":
        line.put(visitor, "one", [f"{visitor}1"])
    assert line.withdraw("b", "one") == ["b1"]
    line.put("b", "two", ["b2"])
    assert line.ahead("b", "two") == ["a1"] and line.take() == "a1"
    assert line.withdraw("b", "two") == ["b2"] and line.take() == "c1"  # its turn has passed
    line.put("a", "two", ["a2"])
    line.put("b", "three", ["b3"])
    assert all_of(line) == ["a2", "b3"]


def test_what_is_for_later_comes_when_nothing_else_is_there() -> None:
    line: FairQueue[str] = FairQueue()
    line.put("a", "sweep", ["later 1", "later 2"], later=True)
    line.put("b", "run", ["b1", "b2"])
    assert line.ahead("a", "sweep") == ["b1", "b2"] and line.ahead("b", "run") == []
    assert [line.take(later=True) for _ in range(3)] == ["b1", "b2", "later 1"]
    line.put("c", "run", ["c"])
    assert line.take() == "c" and line.withdraw("a", "sweep") == ["later 2"] and line.ahead("a", "sweep") is None


def test_who_takes_only_some_leaves_the_others_where_they_are() -> None:
    line: FairQueue[str] = FairQueue()
    line.put("a", "long", ["a1", "a2"])
    line.put("b", "short", ["b"])
    line.put("c", "long", ["c"])
    line.put("c", "short", ["cs"])
    assert [line.take(lambda item: item in ("b", "cs")) for _ in range(2)] == ["b", "cs"]
    assert all_of(line) == ["a1", "c", "a2"]
    for visitor in "abc":
        line.put(visitor, "one", [f"{visitor}1"])
    line.withdraw("a", "one")
    assert line.take(lambda item: item == "c1") == "c1"  # which takes nobody's place
    line.put("a", "two", ["a2"])
    assert all_of(line) == ["a2", "b1"]
    found: list[str | None] = []
    waiting = threading.Thread(target=lambda: found.append(line.take(lambda item: item == "quick")))
    waiting.start()
    line.put("a", "long", ["a3"])
    line.put("b", "short", ["quick"])
    waiting.join(timeout=10)
    assert found == ["quick"] and all_of(line) == ["a3"]


TASKS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 4)), min_size=1, max_size=8)


@given(tasks=TASKS, taken=st.integers(0, 10))
def test_what_comes_before_is_foretold_and_a_task_that_leaves_is_gone(
    tasks: list[tuple[str, str, int]], taken: int
) -> None:
    def filled() -> FairQueue[str]:
        line: FairQueue[str] = FairQueue()
        for number, (visitor, task, count) in enumerate(tasks):
            line.put(visitor, task, [f"{visitor}{task}{number}.{item}" for item in range(count)])
        for _ in range(min(taken, sum(count for *_, count in tasks))):
            line.take()
        return line

    whole = all_of(filled())
    for visitor, task, _ in tasks:
        of_task = [item for item in whole if item.startswith(visitor + task)]
        ahead = filled().ahead(visitor, task)
        assert ahead == (whole[: whole.index(of_task[0])] if of_task else None)
        line = filled()
        assert line.withdraw(visitor, task) == of_task
        assert line.withdraw(visitor, task) == [] and sorted(all_of(line)) == sorted(set(whole) - set(of_task))


def test_who_waits_gets_what_comes_and_is_let_go_when_the_line_closes() -> None:
    line: FairQueue[str] = FairQueue()
    found: list[str | None] = []
    waiting = threading.Thread(target=lambda: found.extend([line.take(), line.take()]))
    waiting.start()
    line.put("a", "run", ["a"])
    line.close()
    waiting.join(300.0)
    assert found in (["a", None], [None, None]) and line.take() is None
