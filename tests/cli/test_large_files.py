"""Files that are too large for a table in memory."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpviz.cli import running
from dpviz.datasets import UploadedTable
from dpviz.datasets.uploads import limits
from dpviz.experiments.experiment import Experiment
from dpviz.exports.export import to_settings
from dpviz.problems.linear.linear_models import LogisticRegression
from tests.cli.conftest import EXPERIMENT


def test_a_large_file_is_read_in_blocks_with_the_same_numbers(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=400), "b": rng.uniform(size=400), "target": ["no", "yes"] * 200})
    table.to_parquet("mine.parquet", row_group_size=100)
    table.to_csv("mine.csv", index=False)
    bounds = ((0.0, 1.0), (0.0, 1.0))
    data = UploadedTable(identity="b" * 32, n=400, bounds=bounds, names=("a", "b"), positive="yes")
    own = Experiment(problem=LogisticRegression(data=data), arms=EXPERIMENT.arms, replicates=2)
    Path("own.json").write_text(to_settings(own))
    whole = shell("run own.json --table mine.parquet --diagnostics")[1]
    monkeypatch.setattr(limits, "MAX_ROWS", 300)
    monkeypatch.setattr(running, "LARGE", 0)
    code, out, err = shell("run own.json --table mine.parquet --diagnostics")
    rows = [[line for line in text.splitlines() if line.startswith("floor")] for text in (whole, out)]
    assert (
        code == 0
        and len(rows[0]) == 1
        and rows[0] == rows[1]
        and re.search(r"Needs at most about [\d.×⁻⁰-⁹]+ GB of memory\.", err)
    )
    monkeypatch.setattr(limits, "MAX_BYTES", 300)
    code, _, err = shell("run own.json --table mine.csv")
    assert code == 2 and "save it as Parquet" in err
    code, _, err = shell("sweep own.json --table mine.parquet --grid epsilon=1,2")
    assert code == 2 and "Only `dpviz run` reads more" in err
