"""What may import what, by the folders that there are: a new family is covered without being named."""

import itertools
from functools import cache
from pathlib import Path

import grimp
import pytest

import dpviz

HOUSE = Path(dpviz.__file__).parent
FAMILIES = tuple(sorted(path.parent.name for path in (HOUSE / "families").glob("*/__init__.py")))
MOST_FILES = 20  # side by side in a folder
# Pages' parts above the page engine, uploads below it, what every page uses at the bottom. None knows one beside it.
ROOMS_OF_UI = (
    ("audit", "compare", "learn", "navigation", "start"),
    ("families",),
    (*FAMILIES, "budget_planner"),
    ("experiment",),
    ("uploads",),
    ("downloads", "browser_session"),
    ("charts", "glossary", "links"),
    ("appearance", "components", "explain", "controls", "presenting", "screen", "tables", "number_table", "visitors"),
    ("markdown", "streamlit_patches", "terms"),
)


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("dpviz", "pages")


def children(package: str) -> set[str]:
    return {child.rpartition(".")[2] for child in graph().find_children(package)}


def known(module: str, *own: str) -> set[str]:
    """The families, but for its own, that a module or anything in it imports, be it through others."""
    return {
        family
        for family in set(FAMILIES) - set(own)
        if graph().find_shortest_chain(module, f"dpviz.families.{family}", as_packages=True) is not None
    }


def test_the_rooms_of_ui_import_one_way() -> None:
    assert children("dpviz.ui") == set(itertools.chain.from_iterable(ROOMS_OF_UI))
    layers = [grimp.Layer(*rooms) for rooms in ROOMS_OF_UI]
    assert graph().find_illegal_dependencies_for_layers(layers, containers={"dpviz.ui"}) == set()


def test_what_every_page_uses_names_no_family() -> None:
    rooms = sorted(children("dpviz.ui") - {*FAMILIES, "audit", "budget_planner"})
    assert {room: found for room in rooms if (found := known(f"dpviz.ui.{room}"))} == {}
    below = ("execution", "plots", "exports", "audits", "compare", "lessons", "sweeps", "experiments", "problems")
    assert {room: found for room in below if (found := known(f"dpviz.{room}"))} == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_page_and_a_family_know_that_family_only(family: str) -> None:
    assert len(FAMILIES) >= 5
    for module in (f"dpviz.ui.{family}", f"dpviz.families.{family}", f"pages.{family}"):
        assert known(module, family) == set(), module


def test_no_folder_has_so_many_files_that_one_must_search() -> None:
    folders = [HOUSE, *(path for path in HOUSE.rglob("*") if path.is_dir())]
    counts = {str(folder.relative_to(HOUSE)): len(list(folder.glob("*.py"))) for folder in folders}
    assert max(counts.values()) > 10
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}
