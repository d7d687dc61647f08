"""Published tables that come with dpviz, in `data/`: their origin and licence are in data/README.md.

Row counts and ranges stand in `bundled.toml` and are not read from the files: they are what is declared, and facts
need no data.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from dpviz import resources
from dpviz.datasets.base import DatasetFacts, DatasetSpecification
from dpviz.later import pd
from dpviz.specification import choice

CONTROLS = resources.data(__package__, "controls.toml")  # label, symbol and help of fields

DECLARED = resources.data(__package__, "bundled.toml")
_POSITIVE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {  # which values of the target are the class +1
    "breast_cancer": lambda value: value == 1,
    "digits": lambda value: value % 2 == 0,
    "health_insurance": lambda value: value > 0,
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
    table: Literal["breast_cancer", "digits", "health_insurance"] = choice("health_insurance", **CONTROLS["table"])

    def facts(self) -> DatasetFacts:
        declared, bounds = DECLARED[self.table], self._bounds
        return DatasetFacts(declared["rows"], tuple(bounds.values()), tuple(bounds))

    @property
    def _bounds(self) -> dict[str, tuple[float, float]]:
        """The features and their declared ranges."""
        if self.table == "digits":
            return {f"pixel_{row}_{column}": (0.0, 16.0) for row in range(8) for column in range(8)}
        return {name: (low, high) for name, (low, high) in DECLARED[self.table]["bounds"].items()}

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        frame = pd.read_parquet(data_file(f"{self.table}.parquet"))
        features = np.array(frame[list(self._bounds)], dtype=np.float64, order="C")
        target = frame[DECLARED[self.table]["target"]].to_numpy()
        return features, np.where(_POSITIVE[self.table](target), 1.0, -1.0)
