"""Published tables that come with dpviz, in `data/`: their origin and licence are in data/README.md.

Row counts and ranges are declared in `bundled.toml` and not read from the files: facts need no data.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np

from dpviz import resources
from dpviz.datasets.base import DatasetFacts, DatasetSpecification, rows_field, seed_field
from dpviz.datasets.uploads.parsing import column_numbers
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.upload import ROWS, Prepared, RowsRead, Upload, prepare_upload
from dpviz.errors import UserError
from dpviz.later import pd, pyarrow
from dpviz.specification import choice

DECLARED = resources.data(__package__, "bundled.toml")
# For each table, the test of its target's values: those that pass are the class +1.
_POSITIVE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "breast_cancer": lambda value: value == 1,
    "digits": lambda value: value % 2 == 0,
    "health_insurance": lambda value: value > 0,
}


class BundledTable(DatasetSpecification):
    """A published table: features in their own units, and a target turned into two classes.

    Breast cancer: is the tumour malignant? Digits: is the digit even? Health insurance: was there a visit to a doctor?
    In the last, a row is one person's year, so replacing one row protects a person-year and not a person.
    """

    kind: ClassVar[str] = "datasets.bundled.table"
    title: ClassVar[str] = "Published table"
    public: ClassVar[bool] = True
    table: Literal["breast_cancer", "digits", "health_insurance"] = choice(
        "health_insurance",
        label="Table",
        help="Real data that anyone may download. Small tables show how much noise few rows need.",
        options={
            "breast_cancer": "Breast cancer (569 rows, 30 features)",
            "digits": "Digits, even or odd (1,797 rows, 64 features)",
            "health_insurance": "Health insurance (20,190 rows, 9 features)",
        },
    )

    def facts(self) -> DatasetFacts:
        """Return the facts that `bundled.toml` declares; no file is read."""
        declared, bounds = DECLARED[self.table], self._bounds
        return DatasetFacts(n=declared["rows"], bounds=tuple(bounds.values()), names=tuple(bounds))

    @property
    def _bounds(self) -> dict[str, tuple[float, float]]:
        """The features and their declared ranges."""
        if self.table == "digits":
            return {f"pixel_{row}_{column}": (0.0, 16.0) for row in range(8) for column in range(8)}
        return {name: (low, high) for name, (low, high) in DECLARED[self.table]["bounds"].items()}

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return features (n, d) in their own units, and labels (n,): +1 where the target passes the table's test."""
        frame = pyarrow.parquet.read_table(resources.data_file(f"{self.table}.parquet")).to_pandas()
        features = np.array(frame[list(self._bounds)], dtype=np.float64, order="C")
        target = frame[DECLARED[self.table]["target"]].to_numpy()
        return features, np.where(_POSITIVE[self.table](target), 1.0, -1.0)


# --------------------------------------------------------------------------------------------------- forest cover types
# Blackard and Dean 1998, UCI Machine Learning Repository: a visitor's copy of the file, and a synthetic stand-in for
# visitors without one. Ten numbers, four areas and forty soils describe a square of forest with spruce or lodgepole
# pine. Numbers are standardised by fixed, published centres and scales; everything is divided by 4, as in the
# paper on private second-order methods. One row in seven is then longer than 1.

# Centre and scale of the numeric columns: declared, and the same for any rows.
STANDARD: Mapping[str, tuple[float, float]] = {
    name: (centre, scale) for name, (centre, scale) in DECLARED["covertype"].items()
}
AREAS, SOILS = 4, 40
NUMBERS, WIDTH = len(STANDARD), len(STANDARD) + AREAS + SOILS
_SCALE = 4.0  # divides every feature
_FAR = 10.0  # declared range ±_FAR: after the division the published rows reach 2.4 at most; hostile rows are clipped
SPRUCE, PINE = 1.0, 2.0  # numbers of the classes in the file's last column; their labels are +1 and -1

# The stand-in draws from these: loadings of the standardised numbers, in the order of STANDARD, on four common factors
# (sun, steepness, water, remoteness), and frequencies of areas and soils, written in thousandths.
_FACTORS = np.zeros((NUMBERS, 4))
_FACTORS[[1, 6, 7, 8], 0] = 0.65, -0.85, 0.55, 0.95
_FACTORS[[2, 6, 7], 1] = 0.7, -0.35, -0.65
_FACTORS[[0, 3, 4], 2] = 0.3, 0.78, 0.78
_FACTORS[[0, 5, 9], 3] = 0.35, 0.52, 0.52
_AREAS = np.array([510, 60, 420, 10]) / 1000
_SOILS = np.zeros(SOILS)
_SOILS[[3, 9, 10, 11, 12, 15, 17, 18, 19, 21, 22, 23, 25, 28, 29, 30, 31, 32, 37, 38, 39]] = np.array(
    [10, 25, 20, 60, 30, 5, 5, 10, 20, 70, 115, 45, 10, 230, 55, 50, 100, 90, 20, 20, 10]
)
_SPREAD = 0.967  # standard deviation of the numbers
_RISE = 2.3  # of the log-odds of the label +1, per unit of elevation
_HEIGHT = (0.2, 0.75)  # mean and scale of elevation, the first number


class _Covertype(DatasetSpecification):
    """Base of both sources: features that are scaled already, with a wide declared range, and two classes."""

    scaled: ClassVar[bool] = True

    def facts_of(self, n: int) -> DatasetFacts:
        """Return the facts of a table with n rows; all else is the same for every such table."""
        areas = [f"area_{i}" for i in range(1, AREAS + 1)]
        soils = [f"soil_{i}" for i in range(1, SOILS + 1)]
        return DatasetFacts(n, ((-_FAR, _FAR),) * WIDTH, (*STANDARD, *areas, *soils))


class CovertypeLike(_Covertype):
    """Drawn rows with about the geometry of the forest cover types: lengths, curvature and odds, and not one real row.

    The numbers are normal with four common factors; areas and soils are independent of them. At 0 the logistic loss has
    gradient norm 0.048 and largest curvature 0.034; 14 % of the rows are longer than 1. The log-odds of +1 are linear:
    they rise with elevation and fall with the distance to water.
    Drawn from `default_rng(seed)`: factors, numbers, areas, soils, then one uniform per label.
    """

    kind: ClassVar[str] = "datasets.covertype.like"
    title: ClassVar[str] = "Stand-in for Covertype (synthetic)"
    public: ClassVar[bool] = True
    rows: int = rows_field(20_000, 1000, 200_000, "The paper's table has 495,141.")
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return self.facts_of(self.rows)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Draw features (n, 54), on the scale of the standardised table, and labels (n,)."""
        generator, n = np.random.default_rng(self.seed), self.rows
        factors = generator.standard_normal((n, _FACTORS.shape[1]))
        features = np.zeros((n, WIDTH))
        residual = np.sqrt(1 - (_FACTORS**2).sum(axis=1))  # brings the variance of each number to 1
        features[:, :NUMBERS] = _SPREAD * (factors @ _FACTORS.T + residual * generator.standard_normal((n, NUMBERS)))
        features[:, 0] = _HEIGHT[0] + _HEIGHT[1] * features[:, 0]
        for start, shares in ((NUMBERS, _AREAS), (NUMBERS + AREAS, _SOILS / _SOILS.sum())):
            category = generator.choice(len(shares), n, p=shares)
            features[np.arange(n), start + category] = 1.0
        elevation, distance_to_water = features[:, 0], features[:, 3]
        log_odds = _RISE * elevation - 0.5 * distance_to_water - 0.9  # by 0.9, 43 % of the labels are +1
        probabilities = 0.5 + 0.5 * np.tanh(0.5 * log_odds)  # of +1: 1/(1 + exp(-log_odds)), but without overflow
        labels = np.where(generator.random(n) < probabilities, 1.0, -1.0)
        features /= _SCALE
        return features, labels


class CovertypeUpload(Upload, _Covertype):
    """A visitor's copy of the file `covtype.data`: 54 columns and the class, without a header.

    identity, n, reading : name of the array of rows, number of used rows, declared way to read the file.

    Class 1 has the label +1 and class 2 the label -1. Rows of other classes are left out, so that n depends on the data
    although it counts as public. A cell without a finite number takes the centre of its column, or 0 for an area or a
    soil.
    """

    kind: ClassVar[str] = "datasets.covertype.upload"

    def facts(self) -> DatasetFacts:
        return self.facts_of(self.n)

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        return (ROWS,)  # as rows of other classes are left out

    def read(self, frame: "pd.DataFrame") -> RowsRead:
        """Return the array (n, 55): the 54 columns with the cells as they are, and the label -1 or +1."""
        if len(frame.columns) != WIDTH + 1:
            raise UserError(
                f"The file covtype.data has {WIDTH} columns and the class. Choose it, or declare the columns of your "
                "own.",
                title=f"This file has {len(frame.columns)} columns",
            )
        classes = column_numbers(frame.iloc[:, -1])
        is_used = (classes == SPRUCE) | (classes == PINE)
        table = np.empty((int(is_used.sum()), WIDTH + 1))
        for column in range(WIDTH):
            table[:, column] = column_numbers(frame.iloc[:, column])[is_used]
        table[:, -1] = np.where(classes[is_used] == SPRUCE, 1.0, -1.0)
        table.flags.writeable = False
        return RowsRead(table, is_used=is_used)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return features (n, 54), standardised and divided by _SCALE, and labels (n,)."""
        table = self.table(tables, columns=WIDTH + 1)
        features = table[:, :-1].copy()
        centres, scales = np.array(list(STANDARD.values())).T
        features[:, :NUMBERS] -= centres
        features[:, :NUMBERS] /= scales
        features[~np.isfinite(features)] = 0.0  # the centre of a number, now subtracted; "no" for an area or a soil
        np.clip(features[:, NUMBERS:], 0.0, 1.0, out=features[:, NUMBERS:])  # areas and soils are 0 or 1
        features /= _SCALE
        return features, table[:, -1].copy()  # copied, as `enforced` may write into it


def prepare_covertype(
    frame: "pd.DataFrame", identity: str | None = None, reading: Reading | None = None
) -> Prepared[CovertypeUpload]:
    """Prepare a table that `read_table` has read from `covtype.data`: its array, and the specification that made it.

    Raises UserError for a table without exactly 55 columns, and for too few rows of the two classes.
    """
    return prepare_upload(CovertypeUpload, frame, identity, reading=reading)
