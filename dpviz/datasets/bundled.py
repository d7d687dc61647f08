"""Published tables that come with dpviz, in `data/`: their origin and licence are in data/README.md.

Row counts and ranges are written here, not read from the files: they are what is declared, and facts need no data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from dpviz.datasets.base import DatasetFacts, DatasetSpecification
from dpviz.specification import choice

Bounds = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class _Table:
    n: int
    bounds: Bounds  # the features and their declared ranges
    target: str
    positive: Callable[[np.ndarray], np.ndarray]  # which values of the target are the class +1


# The minima and maxima of the published description, rounded outwards.
_CELL_NUCLEI: Bounds = {
    "mean_radius": (6.0, 30.0),
    "mean_texture": (9.0, 40.0),
    "mean_perimeter": (40.0, 190.0),
    "mean_area": (140.0, 2510.0),
    "mean_smoothness": (0.05, 0.17),
    "mean_compactness": (0.01, 0.35),
    "mean_concavity": (0.0, 0.43),
    "mean_concave_points": (0.0, 0.21),
    "mean_symmetry": (0.1, 0.31),
    "mean_fractal_dimension": (0.04, 0.1),
    "radius_error": (0.1, 3.0),
    "texture_error": (0.3, 5.0),
    "perimeter_error": (0.7, 22.0),
    "area_error": (6.0, 550.0),
    "smoothness_error": (0.001, 0.032),
    "compactness_error": (0.002, 0.14),
    "concavity_error": (0.0, 0.4),
    "concave_points_error": (0.0, 0.06),
    "symmetry_error": (0.007, 0.08),
    "fractal_dimension_error": (0.0, 0.031),
    "worst_radius": (7.0, 37.0),
    "worst_texture": (12.0, 50.0),
    "worst_perimeter": (50.0, 260.0),
    "worst_area": (180.0, 4300.0),
    "worst_smoothness": (0.07, 0.23),
    "worst_compactness": (0.02, 1.1),
    "worst_concavity": (0.0, 1.3),
    "worst_concave_points": (0.0, 0.3),
    "worst_symmetry": (0.15, 0.67),
    "worst_fractal_dimension": (0.05, 0.21),
}

_TABLES = {
    "breast_cancer": _Table(569, _CELL_NUCLEI, "malignant", lambda value: value == 1),
    "digits": _Table(
        1797, {f"pixel_{r}_{c}": (0.0, 16.0) for r in range(8) for c in range(8)}, "digit", lambda value: value % 2 == 0
    ),
    "health_insurance": _Table(
        20_190,
        {
            "lncoins": (0.0, 4.62),  # ln(coinsurance + 1), coinsurance at most 100 %
            "idp": (0.0, 1.0),
            "lpi": (0.0, 7.2),
            "fmde": (0.0, 8.3),
            "physlm": (0.0, 1.0),
            "disea": (0.0, 60.0),
            "hlthg": (0.0, 1.0),
            "hlthf": (0.0, 1.0),
            "hlthp": (0.0, 1.0),
        },
        "mdvis",
        lambda value: value > 0,
    ),
}


def data_file(name: str) -> Path:
    """The path of a file in `data/`: inside the installed package, or beside the package in a checkout.

    Raises FileNotFoundError where the installation lacks the file.
    """
    package = Path(__file__).resolve().parents[1]
    # The package's own folder comes first: beside an installed package, `data` would be somebody else's.
    for folder in (package / "data", package.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"the data file {name} is missing from this installation of dpviz")


class BundledTable(DatasetSpecification):
    """A published table: features in their own units, and a target turned into two classes.

    Breast cancer: is the tumour malignant? Digits: is the digit even? Health insurance: was there a visit to a doctor?
    In the last, a row is one person's year, so replacing one row protects a person-year and not a person.
    """

    kind: ClassVar[str] = "datasets.bundled.table"
    title: ClassVar[str] = "Published table"
    table: Literal["breast_cancer", "digits", "health_insurance"] = choice(
        "health_insurance",
        {
            "breast_cancer": "Breast cancer (569 rows, 30 features)",
            "digits": "Digits, even or odd (1,797 rows, 64 features)",
            "health_insurance": "Health insurance (20,190 rows, 9 features)",
        },
        label="Table",
        help="Real data that anyone may download. Small tables show how much noise few rows need.",
    )

    def facts(self) -> DatasetFacts:
        table = _TABLES[self.table]
        return DatasetFacts(table.n, tuple(table.bounds.values()), tuple(table.bounds))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        table = _TABLES[self.table]
        frame = pd.read_parquet(data_file(f"{self.table}.parquet"))
        features = np.array(frame[list(table.bounds)], dtype=np.float64, order="C")
        return features, np.where(table.positive(frame[table.target].to_numpy()), 1.0, -1.0)
