"""The documentation: pages in MyST, notebooks that are run, and the public names with their parameters."""

import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ.update(PYTHONPATH=str(HERE.parent), PLOTLY_RENDERER="notebook")  # of the notebooks' kernels

import dpviz  # noqa: E402
from dpviz.specification import Specification  # noqa: E402

project, author, release = "dpviz", "the dpviz developers", dpviz.__version__
extensions = ["myst_nb", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "requirements.txt"]
html_theme, html_title = "furo", f"dpviz {release}"
nb_execution_mode, nb_execution_raise_on_error, nb_execution_timeout = "force", True, 300

GROUPS = {
    "Experiments": ("Experiment", "Arm", "Plan", "Trace", "Sweep", "Audit", "UserError"),
    "Functions": (
        "audit",
        "calibrate",
        "convert",
        "epsilon",
        "final_table",
        "marked",
        "open",
        "presets",
        "read_table",
        "table",
        "tightest",
    ),
    "Budgets and noise": ("dpviz.privacy",),
    "Problems": ("dpviz.problems",),
    "Methods": ("dpviz.families",),
}


def setup(_: Any) -> None:
    """Write the page of the public names before pages are looked for."""
    (HERE / "api.md").write_text("\n".join(_api()))


def _api() -> Iterator[str]:
    yield "# Public names\n\nAll of `import dpviz`; everything else may move. `help(dpviz.NAME)` says the same.\n"
    left = list(dpviz.__all__)
    for group, members in GROUPS.items():
        found = [name for name in left if name in members or getattr(dpviz, name).__module__.startswith(members)]
        left = [name for name in left if name not in found]
        yield f"## {group}\n"
        for name in found:
            yield from _entry(name)
    if left:
        raise ValueError(f"Public names without a group: {left}")


def _entry(name: str) -> Iterator[str]:
    """Name, signature, docstring, and the declared ranges of what has any."""
    public = getattr(dpviz, name)
    yield f"### {name}\n"
    if inspect.isfunction(public):
        yield f"```python\ndpviz.{name}{inspect.signature(public)}\n```\n"
    controls = public.controls() if isinstance(public, type) and issubclass(public, Specification) else ()
    text = inspect.cleandoc(public.__doc__ or "")
    text, _, declared = text.partition("Parameters\n----------") if controls else (text, "", "")
    yield f"```text\n{text.strip()}\n```\n"
    if controls:
        yield "| parameter | range | default | |\n|---|---|---|---|"
    for control in controls:
        options = ", ".join(control.options) if control.options else f"{control.low} to {control.high}"
        cells = (f"`{control.name}`", "" if control.type is bool else options, control.default, control.help)
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
    _, _, source = declared.partition("Source\n------\n")
    yield f"\nSource: {source.strip()}\n" if source else ""
