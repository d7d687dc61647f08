"""What may import what. The folders say what there is, the lists below in which order; so a new family, or a module in
a folder that has no order of its own, is covered without being named.
"""

import ast
import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

import dpviz

HOUSE = Path(dpviz.__file__).parent
FAMILIES = tuple(sorted(path.parent.name for path in (HOUSE / "families").glob("*/__init__.py")))
# Of a package, its rooms from the top down. A room may import those in the lines below its own, none beside it in the
# line. Every room stands in it once.
LAYERS: dict[str, tuple[str, ...]] = {
    "dpviz": (
        "__main__",
        "extend library",
        "ui cli",
        "execution",
        "families",
        "exports plots",
        "audits compare lessons sweeps",
        "experiments",
        "problems",
        "privacy datasets",
        "displays specification",
        "arguments",
        "later",
        "errors",
        "checkpoints numbers one_thread people processes resources templates version",
    ),
    "dpviz.families": (" ".join(FAMILIES),),
    "dpviz.problems": ("values", "nonconvex", "games linear tuning", "base", "model private_bounds"),
    # Noise and plans above budgets, budgets above accounting, accounting above events.
    "dpviz.privacy": (
        "local statistics verification",
        "calibration mechanisms",
        "conversions deployments matrix_products running_sums",
        "batches",
        "releases",
        "budgets ledger",
        "optimal_sums",
        "audit matrix_factorisation tradeoffs",
        "accounting",
        "events",
    ),
    # What is asked above how a budget is split.
    "dpviz.privacy.statistics": ("search", "analyses", "allocation", "noisy_means"),
    # Mistakes above tests, tests above what was released.
    "dpviz.privacy.verification": ("broken", "implementation", "transcripts"),
    # Accountants above single events, single events above closed forms.
    "dpviz.privacy.accounting": (
        "accountants",
        "currencies fine",
        "pld",
        "rounding",
        "per_event",
        "rdp_tradeoffs subsampled_rdp",
        "closed_forms",
    ),
    # Pages' parts above the page engine, uploads below it, what every page uses at the bottom.
    "dpviz.ui": (
        "addresses audit compare navigation",
        "learn",
        "server",
        "families shell",
        f"{' '.join(FAMILIES)} budget_planner",
        "experiment",
        "uploads",
        "downloads",
        "charts glossary links splits",
        "appearance explain controls visitors",
        "components",
        "markdown streamlit_patches",
    ),
}
# Whose statements alone name a package of others. Pages draw through plots, families and ui, never with plotly itself.
NAMED_BY = {
    "streamlit": ("dpviz.ui", "pages"),
    "plotly": ("dpviz.ui", "dpviz.plots", *(f"dpviz.families.{family}" for family in FAMILIES)),
    "dask": ("dpviz.execution.cluster",),
    "distributed": ("dpviz.execution.cluster",),
    "sklearn": ("dpviz.problems.tuning.trainers",),
    "jinja2": ("dpviz.templates",),
    "click": ("dpviz.cli",),
}
# What does not come to a package of others through any number of modules either: what computes, and what keeps results.
ROOMS = [room for line in LAYERS["dpviz"] for room in line.split()]
NEVER_REACH = {
    "streamlit": tuple(f"dpviz.{room}" for room in ROOMS if room not in ("ui", "library", "__main__")),
    "plotly": (
        *(f"dpviz.{room}" for room in ROOMS if room not in ("ui", "library", "__main__", "cli", "plots", "families")),
        *(f"dpviz.families.{family}.{part}" for family in FAMILIES for part in ("algorithms", "methods", "theory")),
    ),
}


@cache
def graph() -> grimp.ImportGraph:
    """All imports, those by a constant name included."""
    imports = grimp.build_graph("dpviz", "pages", include_external_packages=True)
    for path in HOUSE.rglob("*.py"):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        importer = ".".join(part for part in parts if part != "__init__")
        for imported in named(path) & imports.modules:
            imports.add_import(importer=importer, imported=imported)
    return imports


def named(path: Path) -> set[str]:
    """The modules of ours that a file imports by name."""
    calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
    first = (call.args[0] for call in calls if "import_module" in ast.unparse(call.func) and call.args)
    return {node.value for node in first if isinstance(node, ast.Constant) and node.value.startswith("dpviz.")}


def children(package: str, imports: grimp.ImportGraph | None = None) -> set[str]:
    return {child.rpartition(".")[2] for child in (imports or graph()).find_children(package)}


def known(module: str, *own: str) -> set[str]:
    """The families, but for its own, that a module or anything in it imports, be it through others."""
    return {
        family
        for family in set(FAMILIES) - set(own)
        if graph().find_shortest_chain(module, f"dpviz.families.{family}", as_packages=True) is not None
    }


def inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def wrong_imports(imports: grimp.ImportGraph) -> Iterator[str]:
    """Every import, or chain of imports, that the lists do not allow."""
    for package, lines in {"": ("pages", "dpviz"), **LAYERS}.items():
        layers = [grimp.Layer(*line.split()) for line in lines]
        for found in imports.find_illegal_dependencies_for_layers(layers, containers={package} - {""} or None):
            yield f"{found.importer} -> {found.imported}"
    for external, users in NAMED_BY.items():
        if external in imports.modules:
            for module in imports.find_modules_that_directly_import(external):
                if not inside(module, users):
                    yield f"{module} -> {external}"
    for external, rooms in NEVER_REACH.items():
        for room in set(rooms) & imports.modules:
            if chain := imports.find_shortest_chain(room, external, as_packages=True):
                yield " -> ".join(chain)


def test_every_room_stands_in_the_order_of_its_package() -> None:
    for package, lines in LAYERS.items():
        rooms = [room for line in lines for room in line.split()]
        assert sorted(rooms) == sorted(children(package)), package


def test_imports_run_one_way() -> None:
    assert sorted(wrong_imports(graph())) == []
    # The public names, which import rooms by names that are put together, are below nothing.
    assert not {name for name in graph().find_modules_that_directly_import("dpviz") if inside(name, ("dpviz",))}


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("dpviz.privacy.events", "dpviz.experiments.plan"),
        ("dpviz.datasets.base", "dpviz.privacy.events"),
        ("dpviz.families.accelerated.theory", "dpviz.families.second_order.theory"),
        ("dpviz.privacy.accounting.closed_forms", "dpviz.privacy.accounting.pld"),
        ("dpviz.ui.links", "pages.home"),
        ("dpviz.execution.store", "streamlit"),
        ("dpviz.families.accelerated.theory", "plotly"),
        ("pages.home", "plotly"),
    ],
)
def test_an_import_that_goes_the_wrong_way_is_found(importer: str, imported: str) -> None:
    changed = copy.deepcopy(graph())
    assert {importer, imported} <= changed.modules
    changed.add_import(importer=importer, imported=imported)
    assert list(wrong_imports(changed)) != []


def test_an_import_by_name_counts() -> None:
    assert graph().direct_import_exists(importer="dpviz.library", imported="dpviz.ui.addresses")


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
