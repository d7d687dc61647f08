"""Forest cover types: the visitor's own file, standardised by what is declared, and the stand-in for it."""

import gzip

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import CovertypeLike, CovertypeUpload, detect_reading, prepare_covertype, read_table
from dpviz.datasets.bundled import STANDARD
from dpviz.errors import UserError
from dpviz.problems.nonconvex.nonconvex import LogisticTukey
from dpviz.problems.nonconvex.symmetric import unpacked

KEY = "c" * 32


def covertype_file(rows: int = 70) -> tuple[bytes, np.ndarray]:
    """A text as the archive has it, without a header, and its cells: classes 1 to 7 take turns."""
    generator = np.random.default_rng(0)
    centres, scales = np.array(list(STANDARD.values())).T
    cells = np.zeros((rows, 55), dtype=int)
    cells[:, :10] = np.rint(centres + scales * generator.standard_normal((rows, 10)))
    cells[np.arange(rows), 10 + generator.integers(0, 4, rows)] = 1
    cells[np.arange(rows), 14 + generator.integers(0, 40, rows)] = 1
    cells[:, -1] = 1 + np.arange(rows) % 7
    return pd.DataFrame(cells).to_csv(header=False, index=False).encode(), cells


@pytest.mark.parametrize("packed", [False, True])
def test_the_file_of_the_archive_works_as_it_is(packed: bool) -> None:
    text, cells = covertype_file()
    content, name = (gzip.compress(text), "covtype.data.gz") if packed else (text, "covtype.data")
    frame = read_table(content, name, reading=detect_reading(content, name).reading)
    assert frame.shape == (70, 55), "its first row is no header"
    prepared = prepare_covertype(frame, KEY)
    specification = prepared.specification
    assert (specification.n, prepared.dropped) == (20, 50)
    assert np.array_equal(specification.rows(frame), prepared.table)
    data = specification.load({KEY: prepared.table})
    kept = cells[cells[:, -1] <= 2]
    assert np.array_equal(data.labels, np.where(kept[:, -1] == 1, 1.0, -1.0))
    expected = kept[:, :54].astype(float)
    for column, (centre, scale) in enumerate(STANDARD.values()):
        expected[:, column] = (expected[:, column] - centre) / scale
    expected /= 4
    np.testing.assert_allclose(data.features, expected, atol=1e-15)
    lengths = np.linalg.norm(expected, axis=1)
    expected /= np.maximum(1, lengths)[:, None]
    risk = LogisticTukey(data=specification).build({KEY: prepared.table})
    np.testing.assert_allclose(risk._rows, expected * data.labels[:, None], atol=1e-15)  # shortened, not scaled again
    assert risk.shortened_share == (lengths > 1).mean() > 0, "who may see it is told how many were longer"
    assert not specification.public


def test_hostile_cells_change_their_own_row_only() -> None:
    _, cells = covertype_file(140)
    frame = pd.DataFrame(cells.astype(float))
    hostile = frame.copy()
    hostile.iloc[0, :54] = np.resize([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324], 54)
    both = [prepare_covertype(table, KEY) for table in (frame, hostile)]
    assert both[0].specification == both[1].specification
    one, other = (LogisticTukey(data=some.specification).build({KEY: some.table})._rows for some in both)
    assert np.isfinite(other).all() and np.linalg.norm(other, axis=1).max() <= 1 + 1e-12
    assert np.array_equal(one[1:], other[1:])


def test_another_table_gets_a_sentence() -> None:
    _, cells = covertype_file()
    with pytest.raises(UserError, match="54 columns and the class"):
        prepare_covertype(pd.DataFrame(cells[:, 1:]))
    with pytest.raises(UserError, match="At least 20"):
        prepare_covertype(pd.DataFrame(cells[:60]))


def test_the_stand_in_has_the_geometry_of_the_table() -> None:
    """Gradient norm 0.0476, largest curvature 0.0361, 14.5 % long (families/second_order/THEORY.md, section 7.1)."""
    risk = LogisticTukey(data=CovertypeLike()).build()
    x = np.zeros((1, 54))
    assert risk.evaluate({"x": x})["gradient_norm"] == pytest.approx(0.0476, abs=0.002)
    hessian = unpacked(risk.hessian(x).value, "goe")[0] + np.diag(risk.regulariser_hessian(x)[0])
    assert np.linalg.eigvalsh(hessian)[-1] == pytest.approx(0.0361, abs=0.001)
    data = CovertypeLike().load()
    assert risk.shortened_share == pytest.approx(0.145, abs=0.01)
    assert np.linalg.norm(risk._rows, axis=1).max() <= 1 + 1e-12
    assert (data.labels > 0).mean() == pytest.approx(0.428, abs=0.02)
    assert np.array_equal(data.features, CovertypeLike().load().features)
    assert (np.sort((data.features[:, 10:] > 0).sum(axis=1)) == 2).all(), "one area and one soil"
    assert CovertypeUpload(identity=KEY, n=30).facts().names == CovertypeLike().facts().names
