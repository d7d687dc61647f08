"""Documents from templates: nothing is left open, and nothing that is filled in becomes part of a document."""

import jinja2
import pytest

from dpviz.exports.export import notebook
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.statistics.analyses import Analyses, Count
from dpviz.templates import cells, render

VALUES = {"upload": False, "secret_seed": False, "unit": "one row", "condition": "", "settings": "{}"}
EXPERIMENT = "exports/templates/experiment_notebook.py.j2"


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'name' is undefined"):
        render("exports/templates/experiment.py.j2", version="1", **VALUES)
    with pytest.raises(jinja2.UndefinedError, match="'version' is undefined"):
        cells(EXPERIMENT, **VALUES)


def test_no_value_begins_a_cell_and_empty_cells_are_left_out() -> None:
    hostile = {**VALUES, "unit": "x\n# %% code\nimport os\n{{ version }}", "version": "1"}
    kinds = [kind for kind, _ in cells(EXPERIMENT, **hostile)]
    assert kinds == ["markdown", "code", "code", "code"]
    assert [kind for kind, _ in cells(EXPERIMENT, **{**hostile, "upload": True})] == ["markdown", *["code"] * 4]
    assert "{{ version }}" in cells(EXPERIMENT, **hostile)[0][1]
    assert notebook("experiment", **{**VALUES, "unit": hostile["unit"]}).count('"cell_type": "code"') == 3


def test_what_is_filled_into_a_page_is_escaped_unless_it_says_safe() -> None:
    values = dict.fromkeys(("text", "noise_and_error", "row"), lambda _: "<i>made</i>")
    page = render(
        "exports/templates/analyses_report.html.j2",
        **values,
        **dict.fromkeys(("version", "day", "all_at_once"), ""),
        plan=Analyses(statistics=(Count(),)),
        budget=PureDP(),
        planned=(),
        readings=[("ε", "<b>many</b>")],
        right="<b>",
    )
    assert "<i>made</i>: at most &lt;b&gt;many&lt;/b&gt;." in page and "at most &lt;b&gt; of 100" in page
