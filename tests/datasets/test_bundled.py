"""The published tables: complete, within their declared ranges, found in a checkout and in an installed package."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from dpviz import resources
from dpviz.datasets import BundledTable
from dpviz.errors import UserError
from dpviz.resources import data_file
from dpviz.specification import Specification

EXPECTED = {"breast_cancer": (569, 30, 212), "digits": (1797, 64, 891), "health_insurance": (20_190, 9, 13_882)}


@pytest.mark.parametrize("name", EXPECTED)
def test_sizes_and_classes(name: str) -> None:
    data = BundledTable(table=name).load()
    assert (*data.features.shape, int((data.labels > 0).sum())) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_declared_ranges_clip_nothing(name: str) -> None:
    features, _ = BundledTable(table=name).raw_rows({})
    assert np.array_equal(features, BundledTable(table=name).load().features)


# Of features and labels as loaded; compared with the packages named in data/README.md when the files were made.
CONTENTS = {
    "breast_cancer": "66e3a78aef90e3bf9aa8f8b46b8ef25b79296b30de0aebddcfdf26e7cabbf4ed",
    "digits": "04571e7c98ed1d035b58c3fa66eda6c8923b6a6ab04665130d111027d541e7c8",
    "health_insurance": "476f36b8ba0d8c24c4865b7c41b5d93c9220722bcf54433336b66b5e6fc9c1fb",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_files_hold_the_values_of_their_origin(name: str) -> None:
    data = BundledTable(table=name).load()
    assert hashlib.sha256(data.features.tobytes() + data.labels.tobytes()).hexdigest() == CONTENTS[name]


def test_every_file_is_described() -> None:
    folder = data_file("README.md").parent
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"## {name}.parquet" in text and (folder / f"{name}.parquet").is_file() for name in EXPECTED)
    assert all(f"## {file.name}\n" in text for file in folder.iterdir() if file.name != "README.md")


def test_the_files_of_an_installed_package_are_found_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "dpviz"
    for folder, content in ((package / "data", "ours"), (package.parent / "data", "somebody else's")):
        folder.mkdir(parents=True)
        (folder / "table.parquet").write_text(content)
    monkeypatch.setattr(resources, "__file__", str(package / "resources.py"))
    assert data_file("table.parquet").read_text() == "ours"
    with pytest.raises(FileNotFoundError, match=r"other\.parquet"):
        data_file("other.parquet")


def test_an_unknown_table_is_a_sentence() -> None:
    with pytest.raises(UserError, match="must be one of breast_cancer"):
        Specification.from_json('{"kind": "datasets.bundled.table", "table": "../secret"}')
