"""A file in blocks of rows: whatever stands in it, each row is the one of the whole table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dpviz.datasets import UploadedTable, prepare, read_table
from dpviz.datasets.uploads import files
from dpviz.datasets.uploads.files import TableFile
from dpviz.errors import UserError
from dpviz.problems.linear.linear_models import LeastSquares, LogisticRegression
from dpviz.problems.nonconvex.nonconvex import LogisticTukey

ROWS = 1000
BOUNDS = {"age": (0.0, 90.0), "pay": (-1e4, 1e4), "big": (0.0, 1e19)}


def table() -> pd.DataFrame:
    """Cells that are missing, out of range, no numbers, and whole numbers that float64 does not hold in one block."""
    rng = np.random.default_rng(0)
    pay = rng.normal(0, 4000, ROWS)
    pay[[3, 500]] = np.nan, np.inf
    big = rng.integers(0, 2**40, ROWS)
    big[700] = 2**60 + 1
    area = rng.choice(["north", "south", "", "é"], ROWS)
    target = rng.choice(["yes", "no", None], ROWS)
    return pd.DataFrame({"age": rng.integers(-5, 99, ROWS), "pay": pay, "big": big, "area": area, "target": target})


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table as a file of row groups, which blocks do not follow."""
    monkeypatch.setattr(files, "ROWS", 130)
    table().to_parquet(tmp_path / "t.parquet", row_group_size=300)
    return tmp_path / "t.parquet"


def upload(stored: Path, drop: bool) -> tuple[UploadedTable, np.ndarray]:
    ready = prepare(
        read_table(stored.read_bytes(), stored.name),
        "target",
        "yes",
        list(BOUNDS),
        BOUNDS,
        drop_missing=drop,
        categories={"area": ["north", "south"]},
    )
    return ready.specification, ready.table


@pytest.mark.parametrize("drop", [False, True])
def test_every_problem_has_the_rows_of_the_whole_table(stored: Path, drop: bool) -> None:
    data, rows = upload(stored, drop)
    inside, beside = {data.identity: rows}, {data.identity: TableFile(stored)}
    assert len(list(data.parts(beside))) > 7  # type: ignore[arg-type]  # a file in place of an array
    clipped = LogisticRegression(data=data, clip=0.3, clipping="rows")
    for problem in (LogisticRegression(data=data), clipped, LogisticTukey(data=data)):
        first, second = problem.build(inside), problem.build(beside)  # type: ignore[arg-type]
        assert np.array_equal(first._rows, second._rows)  # type: ignore[attr-defined]
    assert clipped.build(inside).shortened_share == pytest.approx(clipped.build(beside).shortened_share)  # type: ignore[arg-type]


def test_of_a_file_in_blocks_only_a_block_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROWS", 5_000)
    path, numbers = tmp_path / "large.parquet", np.random.default_rng(0).random((300_000, 4))
    pd.DataFrame(numbers, columns=list("abcd")).to_parquet(path, row_group_size=20_000)
    del numbers
    before = pyarrow.total_allocated_bytes()
    sizes = [pyarrow.total_allocated_bytes() - before for _ in TableFile(path).blocks()]
    assert len(sizes) == 60 and max(sizes) < path.stat().st_size / 2


def test_a_target_that_is_a_number_too(stored: Path) -> None:
    data, _ = upload(stored, False)
    number = data.replaced(target="pay", names=("age",), bounds=(BOUNDS["age"],), target_range=(-9e3, 9e3))
    array, model = number.rows(read_table(stored.read_bytes(), stored.name)), LeastSquares(data=number)
    first, second = (model.build({data.identity: one}) for one in (array, TableFile(stored)))  # type: ignore[dict-item]
    x = np.array([[0.3, -0.2, 0.1, 0.5]])
    for one, other in zip(first.sums(x), second.sums(x), strict=True):
        assert np.array_equal(one, other)


def test_texts_that_are_written_as_differences(stored: Path) -> None:
    data, rows = upload(stored, False)
    written = pyarrow.Table.from_pandas(table())
    differences = {"area": "DELTA_BYTE_ARRAY", "target": "DELTA_BYTE_ARRAY"}
    pyarrow.parquet.write_table(written, stored, use_dictionary=False, column_encoding=differences)
    found = data.table({data.identity: TableFile(stored)}, rows.shape[1])  # type: ignore[dict-item]
    assert np.array_equal(found, rows)


def test_a_file_of_another_size_or_a_damaged_one_is_a_sentence(stored: Path) -> None:
    data, _ = upload(stored, False)
    for n in (130, 999, 1001, 5000):  # the first is what one block holds
        other = LogisticRegression(data=data.replaced(n=n))
        with pytest.raises(UserError, match=rf"It has 1,000 rows that can be used, and these settings are for {n:,}"):
            other.build({data.identity: TableFile(stored)})  # type: ignore[dict-item]
    whole = stored.read_bytes()
    for damaged in (whole[:-300], whole.replace(b"pay", b"p\xffy")):  # the second has a column whose name is no UTF-8
        stored.write_bytes(damaged)
        with pytest.raises(UserError, match="Save it as UTF-8 CSV"):
            LogisticRegression(data=data).build({data.identity: TableFile(stored)})  # type: ignore[dict-item]
    table().assign(tags=[["a", "b"]] * ROWS).to_parquet(stored)
    with pytest.raises(UserError) as refused:
        next(TableFile(stored).blocks())
    assert refused.value.title == "Column 'tags' holds lists or records", "of a file that is not damaged"
