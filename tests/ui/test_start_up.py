"""What visitors wait for: nothing slow is imported for one function; garbage is not collected at every move."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_menu_waits_for_nothing_that_pages_compute_or_draw_with() -> None:
    program = (
        "import sys, streamlit\nbefore = set(sys.modules)\nfrom dpviz.ui import navigation\nnavigation.configure()\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} & set(sys.argv[1:])))"
    )
    dear = ("scipy", "pandas", "plotly", "pydantic")
    run = subprocess.run([sys.executable, "-c", program, *dear], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_products_are_computed_as_in_the_workers() -> None:
    """Whatever is computed in the server has the same last digits: OpenBLAS with two threads adds up otherwise."""
    program = (
        "import streamlit.web.bootstrap, streamlit, dpviz.ui, os, sys\n"
        "print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    free = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True, env=free)
    assert found.split() == ["False", "1"]
