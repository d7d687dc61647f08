"""What visitors wait for: nothing slow is imported for one function; garbage is not collected at every move."""

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[2]
DEAR = ("scipy.stats", "scipy.signal")  # 0.7 s together


def imported(path: Path) -> set[str]:
    """The modules of this house that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("dpviz")}


@pytest.mark.slow
def test_no_page_imports_the_expensive_parts_of_scipy() -> None:
    described = {f"dpviz.ui.{path.parent.name}.page" for path in (ROOT / "dpviz" / "ui").glob("*/page.py")}
    modules = {"dpviz.ui.shell"}.union(described, *(imported(path) for path in (ROOT / "pages").glob("*.py")))
    assert any("mirror_descent" in name for name in modules) and any("accelerated" in name for name in modules)
    program = f"import sys, {', '.join(sorted(modules))}\nprint([name for name in {DEAR} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_menu_waits_for_nothing_that_pages_compute_or_draw_with() -> None:
    program = (
        "import sys, streamlit\nbefore = set(sys.modules)\nfrom dpviz.ui import navigation\nnavigation.configure()\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} & set(sys.argv[1:])))"
    )
    dear = ("scipy", "pandas", "plotly", "pydantic")
    run = subprocess.run([sys.executable, "-c", program, *dear], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.slow
def test_garbage_is_collected_now_and_then_and_not_after_every_move(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300).run()
    monkeypatch.setattr(gc, "collect", lambda *generation: collected.append(1))
    for _ in range(20):
        app.run()
    assert not app.exception and len(collected) < 20


def test_products_are_computed_as_in_the_workers() -> None:
    """Whatever is computed in the server has the same last digits: OpenBLAS with two threads adds up otherwise."""
    program = (
        "import streamlit.web.bootstrap, streamlit, dpviz.ui, os, sys\n"
        "print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    free = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True, env=free)
    assert found.split() == ["False", "1"]
