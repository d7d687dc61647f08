"""In the tiny worlds every branch of every method is visited: what is not run there is not tested there."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import dpviz.families
from dpviz.privacy.budgets import NoPrivacy
from tests.families import toys
from tests.families.registry import ALGORITHMS, R, finished, planned, runs
from tests.families.spying import stub_noise

ENDINGS = {"converged", "budget", "exhausted", "diverged"}
# More products with a Hessian than a tiny world has columns: `test_krylov` has worlds that are large enough.
TOO_LARGE = {"count = min(2 * count, d)"}
METHODS = (str(Path(dpviz.families.__file__).parent), toys.__file__)


@contextmanager
def followed(seen: dict[CodeType, set[int]]) -> Iterator[None]:
    """Notes the lines that are run of every function of a method."""

    def line(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line":
            seen[frame.f_code].add(frame.f_lineno)
        return line

    def call(frame: FrameType, _: str, __: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(METHODS):
            return None
        seen.setdefault(frame.f_code, set())
        return line

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


def forget() -> None:
    """Empties the caches of all methods: what another test made is made again."""
    for name, module in list(sys.modules.items()):
        if name.startswith(dpviz.families.__name__):
            for each in vars(module).values():
                getattr(each, "cache_clear", lambda: None)()


def is_pause(statement: ast.stmt) -> bool:
    """Whether a statement only pauses, or hands out the latest snapshot once more, with how far the next one is."""
    written = ast.unparse(statement)
    return written in ("yield", "yield latest") or written.startswith("latest.within = ")


@cache
def guarded(path: str) -> frozenset[int]:
    """Lines of statements that raise, which a run must not come to, of the mistakes of toys, and of pauses inside a
    step, which a tiny world is too quick for."""
    found: list[ast.stmt] = []
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.Raise | ast.Assert):
            found.append(node)
        elif isinstance(node, ast.If) and ("mistake" in ast.unparse(node.test) or all(map(is_pause, node.body))):
            found += node.body
        elif isinstance(node, ast.While):
            found += (part for part in node.body if is_pause(part) or ast.unparse(part) in TOO_LARGE)
    return frozenset(line for node in found for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


@pytest.mark.slow
def test_every_line_and_ending_of_every_method_is_met_in_the_tiny_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endings are set with masks, which a line alone does not show: each word that a class has must be some run's."""
    seen: dict[CodeType, set[int]] = {}
    planning: dict[CodeType, set[int]] = {}  # what a run shares with its plan
    unmet = {}
    forget()
    for cls in ALGORITHMS:
        free = [case for _, case in zip(range(12), planned(cls, (NoPrivacy(),)), strict=False)]
        cases = (*runs(cls), *free)
        with followed(planning):
            for case in cases:
                case.algorithm.plan(case.plan.facts, case.budget)
        with followed(seen), np.errstate(all="ignore"):
            shown = [finished(case)[-1] for case in cases]
            with monkeypatch.context() as patched:
                stub_noise(patched, (np.nan, 1e200, np.nan)[:R])
                shown.append(finished(cases[0])[-1])
        said = {node.value for node in ast.walk(ast.parse(inspect.getsource(cls))) if isinstance(node, ast.Constant)}
        met = {word for last in shown for word in last["status"] or ()}
        if missed := (said & ENDINGS) - met:
            unmet[cls.kind] = missed
    left = {}
    for code, lines in seen.items():
        known = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno}
        missing = known - lines - planning.get(code, set()) - guarded(code.co_filename)
        if missing and code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<lambda>", "<setcomp>"):
            left[f"{Path(code.co_filename).name}:{code.co_qualname}"] = sorted(missing)
    assert left == {} and unmet == {}
