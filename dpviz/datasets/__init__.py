"""Data sets: sources of rows, their declared facts, and the reading of uploads."""

from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification, enforce_bounds
from dpviz.datasets.bundled import BundledTable, CovertypeLike, CovertypeUpload, prepare_covertype
from dpviz.datasets.categories import (
    CategoricalBundled,
    CategoricalGenerator,
    CategoricalSpecification,
    CategoricalUpload,
    PreparedCategories,
    prepare_categories,
    suggest_categories,
)
from dpviz.datasets.groups import (
    GroupedBundled,
    GroupedLosses,
    GroupedSigns,
    GroupedSpecification,
    GroupedUpload,
    prepare_groups,
)
from dpviz.datasets.own_table import table
from dpviz.datasets.synthetic import (
    CorrelatedLogistic,
    FactorDraws,
    HeavyTailed,
    LatentGame,
    NormalDraws,
    PaperLogistic,
    ProcessDraws,
    RegressionDraws,
    Saddle,
    SphereLinear,
    UniformLinear,
    UniformLogistic,
)
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
