"""A file that is too large for a table in memory: Parquet, read in blocks of rows whenever its rows are needed.

A cell decides about its own row alone, so a row is the same whatever block it stands in.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.arrow import Column, frame_of, plain
from dpviz.later import pd, pyarrow

ROWS = 65_536  # of a block, at most


@dataclass(frozen=True)
class TableFile:
    """Stands for the array of an upload among the `tables` that a data set is loaded with."""

    path: Path

    def blocks(self) -> "Iterator[pd.DataFrame]":
        """Its rows in their order, each block as `read_table` would read it alone. Raises UserError for a file that is
        damaged, or no Parquet."""
        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                names = limits.checked_names(file.schema_arrow.names, limits.MIN_COLUMNS, limits.MAX_COLUMNS)
                for batch in file.iter_batches(ROWS):
                    columns = [Column(plain(one, name)).whole() for one, name in zip(batch.columns, names, strict=True)]
                    yield frame_of(pyarrow.Table.from_arrays(columns, names=names))
        except (pyarrow.ArrowException, OSError):
            raise limits.unreadable() from None
