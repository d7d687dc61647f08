"""The documentation: pages in MyST, notebooks that are run, and the public names by their docstrings."""

import inspect
import operator
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ.update(PYTHONPATH=str(HERE.parent), PLOTLY_RENDERER="notebook")  # of the notebooks' kernels

import dpviz  # noqa: E402
from dpviz import extend  # noqa: E402
from dpviz.specification import Specification  # noqa: E402

project, author, release = "dpviz", "the dpviz developers", dpviz.__version__
extensions = ["myst_nb", "sphinx-mathjax-offline", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "requirements.txt"]
html_theme, html_title = "furo", f"dpviz {release}"
html_static_path = html_css_files = ["style.css"]
autodoc_typehints, autodoc_member_order, maximum_signature_line_length = "none", "bysource", 100
default_role, napoleon_custom_sections, add_module_names = "code", ["Source"], False
nb_execution_mode, nb_execution_raise_on_error, nb_execution_timeout = "force", True, 300

MODULES = {"dpviz.privacy": "Budgets and noise", "dpviz.problems": "Problems", "dpviz.families": "Methods"}
RETURNED = ("problems.model.Model", "sweeps.sweep_result.SweepResult", "audits.audit.Verdict")
MEMBERS = (":members:", ":inherited-members: BaseModel", ":exclude-members: model_config, model_validate")


def setup(app: Any) -> None:
    """Write the page of the public names before pages are looked for."""
    (HERE / "api.rst").write_text("\n".join(_api()))
    app.connect("autodoc-process-docstring", _as_text, priority=400)  # before napoleon, at 500


def _api() -> Iterator[str]:
    yield "Public names\n============\n"
    yield "All of ``import dpviz``, and of ``dpviz.extend`` below; everything else may move. ``help`` says the same.\n"
    groups: dict[str, list[str]] = {group: [] for group in ("Experiments", "Functions", *MODULES.values())}
    for name in dpviz.__all__:
        public = getattr(dpviz, name)
        module = ".".join(public.__module__.split(".")[:2])
        groups["Functions" if inspect.isfunction(public) else MODULES.get(module, "Experiments")].append(
            f"dpviz.{name}"
        )
    for group, names in groups.items():
        # Methods and problems have the members of `Algorithm` and `ProblemSpecification`, which are listed once.
        yield from _section(group, names, () if group in ("Problems", "Methods") else MEMBERS)
        if group == "Functions":
            yield from _section("What they return", [f"dpviz.{name}" for name in RETURNED], MEMBERS)
    names = [f"dpviz.extend.{name}" for name in extend.__all__ if name not in dpviz.__all__]
    yield from _section("For methods of your own: dpviz.extend", names, (":members:",))


def _section(title: str, names: list[str], options: tuple[str, ...]) -> Iterator[str]:
    yield f"{title}\n{'-' * len(title)}\n"
    for name in names:
        public = operator.attrgetter(name.removeprefix("dpviz."))(dpviz)
        kind = "class" if isinstance(public, type) else "function" if callable(public) else "data"
        yield f".. auto{kind}:: {name}"
        yield from (f"   {option}" for option in options if kind == "class")
        yield ""


_ITEM = re.compile(r"(\w[\w., *]*) : ")


def _as_text(_: Any, what: str, __: str, public: Any, ___: Any, lines: list[str]) -> None:
    """Write a docstring as reStructuredText: parameters with their ranges, lists of "name : meaning", special signs."""
    text = "\n".join(lines)
    if what == "class" and issubclass(public, Specification) and public.controls():
        text = re.sub(
            r"(?<=Parameters\n----------\n).*?(?=\n\n\w+\n---|\Z)", _parameters(public), text, flags=re.DOTALL
        )
    first, *sections = re.split(r"^(?=\w+\n---)", text, maxsplit=1, flags=re.MULTILINE)
    blocks = first.split("\n\n")
    for number, block in enumerate(blocks):
        rows = block.split("\n")
        if not rows[0].startswith((" ", ">>>")) and any(map(_ITEM.match, rows)):
            rows = [_ITEM.sub(r"\n\n- `\1`: ", row) if _ITEM.match(row) else f"  {row.strip()}" for row in rows]
            start = next(at for at, row in enumerate(rows) if row.startswith("\n"))
            rows[:start] = [row.strip() for row in rows[:start]]
            blocks[number] = "\n".join(rows).strip("\n")
    text = "".join(["\n\n".join(blocks), *sections])
    parts = re.split(r"(`[^`]*`|^>>>.*?(?:\n\n|\Z))", text, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [re.sub(r"[*|]|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [
        f"{part}\\ " if part[-1] == "`" and re.match(r"\w", after) else part
        for part, after in zip(parts[1::2], parts[2::2], strict=True)
    ]
    lines[:] = "".join(parts).split("\n")
    if what == "property":
        lines[0] = f": {lines[0]}"  # or napoleon takes what stands before a colon for its type


def _parameters(public: type[Specification]) -> str:
    rows = []
    for control in public.controls():
        options = ", ".join(control.options) if control.options else f"{control.low} to {control.high}"
        said = "bool" if control.type is bool else options
        rows.append(f"{control.name} : {said}, default {control.default}\n    {control.help}")
    return "\n".join(rows).replace("\\", r"\\")
