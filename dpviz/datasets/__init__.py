"""Data sets: where the rows come from, what is declared of them, and how uploads are read."""

from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification, enforce_bounds
from dpviz.datasets.bundled import BundledTable, data_file
from dpviz.datasets.categories import (
    CategoricalBundled,
    CategoricalGenerator,
    CategoricalUpload,
    PreparedCategories,
    prepare_categories,
    suggest_categories,
)
from dpviz.datasets.categories_base import CategoricalData
from dpviz.datasets.covertype import CovertypeLike, CovertypeUpload, prepare_covertype
from dpviz.datasets.games import LatentGame
from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns, GroupedUpload, prepare_groups
from dpviz.datasets.groups_base import GroupedSpecification
from dpviz.datasets.synthetic import (
    CorrelatedLogistic,
    HeavyTailed,
    PaperLogistic,
    Saddle,
    SphereLinear,
    UniformLinear,
    UniformLogistic,
)
from dpviz.datasets.tuning import FactorDraws, NormalDraws, ProcessDraws, RegressionDraws
from dpviz.datasets.uploads.columns import (
    ColumnInfo,
    describe_columns,
    encode_target,
    likely_group,
    likely_target,
    suggested_bounds,
    target_candidates,
    target_classes,
    usual_positive,
)
from dpviz.datasets.uploads.detection import Detected
from dpviz.datasets.uploads.files import detect_reading, read_table
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.upload import Prepared, Upload, UploadedTable, prepare
from dpviz.datasets.users import UserUpload, prepare_users

__all__ = [
    "BundledTable",
    "CategoricalBundled",
    "CategoricalData",
    "CategoricalGenerator",
    "CategoricalUpload",
    "ColumnInfo",
    "CorrelatedLogistic",
    "CovertypeLike",
    "CovertypeUpload",
    "Dataset",
    "DatasetFacts",
    "DatasetSpecification",
    "Detected",
    "FactorDraws",
    "GroupedBundled",
    "GroupedLosses",
    "GroupedSigns",
    "GroupedSpecification",
    "GroupedUpload",
    "HeavyTailed",
    "LatentGame",
    "NormalDraws",
    "PaperLogistic",
    "Prepared",
    "PreparedCategories",
    "ProcessDraws",
    "Reading",
    "RegressionDraws",
    "Saddle",
    "SphereLinear",
    "UniformLinear",
    "UniformLogistic",
    "Upload",
    "UploadedTable",
    "UserUpload",
    "data_file",
    "describe_columns",
    "detect_reading",
    "encode_target",
    "enforce_bounds",
    "likely_group",
    "likely_target",
    "prepare",
    "prepare_categories",
    "prepare_covertype",
    "prepare_groups",
    "prepare_users",
    "read_table",
    "suggest_categories",
    "suggested_bounds",
    "target_candidates",
    "target_classes",
    "usual_positive",
]
