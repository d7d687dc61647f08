"""Data beside the code: read once, by one loader; every text is used, exists, and gets what it asks for."""

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dpviz
from dpviz import resources

PACKAGE = Path(dpviz.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
OF_EVERY_PAGE = {"NOT_COVERED", "QUESTION", "TITLE"}  # of a family: `FamilyPage` asks for them
TEXTS = sorted(PACKAGE.rglob("texts.toml"))
SAID_BY = {"phrase": "PHRASES"}  # the function that says what a table has


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def users(module: str) -> Iterator[ast.Module]:
    """The files that have a module of texts under its own name."""
    package, _, name = module.rpartition(".")
    for path in SOURCES:
        for node in tree(path).body if f"from {package} import" in path.read_text(encoding="utf-8") else ():
            if isinstance(node, ast.ImportFrom) and node.module == package and name in {one.name for one in node.names}:
                yield tree(path)


SAYING = {path.parent for path in TEXTS if SAID_BY.values() & tomllib.loads(path.read_text(encoding="utf-8")).keys()}


def fields(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


def holder(path: Path) -> Path:
    """The file by which texts are attributes: a module of texts, else the package itself."""
    module = path.with_suffix(".py")
    return module if module.exists() else path.with_name("__init__.py")


@pytest.mark.parametrize(
    "path",
    [path for path in TEXTS if "resources.Texts(" in holder(path).read_text("utf-8")],
    ids=lambda p: p.parent.name,
)
def test_every_text_exists_is_used_and_gets_the_fields_that_it_has(path: Path) -> None:
    module = module_of(path)
    texts = {
        name: text
        for name, text in resources.data(module.rpartition(".")[0], "texts.toml").items()
        if name not in SAID_BY.values()
    }
    own = tree(holder(path))
    defined = {name.id for name in ast.walk(own) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    defined |= {node.name for node in own.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    used = (OF_EVERY_PAGE if path.parent.parent.name == "families" else set()) | {
        node.slice.value
        for node in ast.walk(own)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        if ast.unparse(node.value) in ("TEXTS", "resources.data(__package__, 'texts.toml')")
    }
    filled: dict[str, set[str]] = {}
    uses: dict[str, int] = {}
    for user in users(module):
        for node in ast.walk(user):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "texts":
                used.add(node.attr)
                uses[node.attr] = uses.get(node.attr, 0) + 1
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
                of = node.func.value
                if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "texts":
                    given = {keyword.arg or "**" for keyword in node.keywords} | ({""} if node.args else set())
                    filled[of.attr] = given
                    uses[of.attr] = uses.get(of.attr, 0) - 1
    assert used - defined <= set(texts), "a text that there is not"
    assert set(texts) <= used, "a text that nobody uses"
    for name, text in texts.items():
        if isinstance(text, str) and fields(text):
            assert filled.get(name) == fields(text) and not uses[name], name


def leaves(value: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from leaves(part, f"{above}{name}.")
        elif isinstance(part, str):
            yield f"{above}{name}", part


def calls(package: Path) -> Iterator[tuple[str, list[str], ast.Call]]:
    """What a package says by name: the table, patterns of the names, and the call. Folders below that have words of
    their own are left out."""
    for source in sorted(package.rglob("*.py")):
        nearest = next(folder for folder in source.parents if (folder / "texts.toml").exists())
        for node in ast.walk(tree(source)) if nearest == package else ():
            if isinstance(node, ast.Call) and node.args:
                said_by = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if said_by in SAID_BY:
                    yield SAID_BY[said_by], names_of(node.args[0]), node


def names_of(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*names_of(node.body), *names_of(node.orelse)]
    if isinstance(node, ast.JoinedStr):
        parts = (re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values)
        return ["".join(map(str, parts))]
    assert isinstance(node, ast.Constant), "a name that cannot be read here"
    return [re.escape(str(node.value))]


@pytest.mark.parametrize("package", sorted(SAYING), ids=lambda package: package.name)
def test_every_phrase_exists_is_used_and_gets_the_fields_that_it_has(package: Path) -> None:
    texts = resources.data(module_of(package), "texts.toml")
    used: set[tuple[str, str]] = set()
    for table, patterns, call in calls(package):
        given = {keyword.arg for keyword in call.keywords}
        for pattern in patterns:
            named = [name for name in texts.get(table, {}) if re.fullmatch(pattern, name)]
            assert named, f"{table} has no {pattern}"
            used |= {(table, name) for name in named}
            wanted = {
                name: set().union(*(fields(text) for _, text in leaves({name: texts[table][name]}))) for name in named
            }
            if None in given:  # `**values`
                assert all(given - {None} <= asked for asked in wanted.values())
            elif isinstance(call.args[-1], ast.Constant):
                assert wanted == {name: given for name in named}
            else:  # a value that one of them does not need does no harm
                assert all(asked <= given for asked in wanted.values())
    assert used == {(table, name) for table in SAID_BY.values() for name in texts.get(table, {})}
