"""Data sets: where the rows come from, what is declared of them, and how uploads are read."""

from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification, enforce_bounds
from dpviz.datasets.bundled import BundledTable, data_file
from dpviz.datasets.files import read_table
from dpviz.datasets.synthetic import CorrelatedLogistic, HeavyTailed, PaperLogistic, UniformLogistic
from dpviz.datasets.upload import (
    ColumnInfo,
    Prepared,
    UploadedTable,
    describe_columns,
    encode_target,
    prepare,
    suggested_bounds,
    target_candidates,
    target_classes,
)

__all__ = [
    "BundledTable",
    "ColumnInfo",
    "CorrelatedLogistic",
    "Dataset",
    "DatasetFacts",
    "DatasetSpecification",
    "HeavyTailed",
    "PaperLogistic",
    "Prepared",
    "UniformLogistic",
    "UploadedTable",
    "data_file",
    "describe_columns",
    "encode_target",
    "enforce_bounds",
    "prepare",
    "read_table",
    "suggested_bounds",
    "target_candidates",
    "target_classes",
]
