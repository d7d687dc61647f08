"""A released linear model in the user's own units, with the conventions of scikit-learn."""

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpviz.datasets.base import DatasetFacts, DatasetSpecification
from dpviz.datasets.groups import GroupedFacts, GroupedSpecification, GroupedUpload
from dpviz.datasets.own_table import frame_blocks
from dpviz.datasets.uploads.columns import encode_target
from dpviz.datasets.uploads.limits import check_columns, quote_name
from dpviz.datasets.uploads.parsing import class_label, column_numbers, is_empty
from dpviz.datasets.uploads.upload import UploadedTable
from dpviz.errors import UserError
from dpviz.later import pd


@dataclass(frozen=True)
class LinearScore:
    """A linear function of the d features, in their own units: `constant` + Σ_j `coefficients`[j] × value_j.

    proba : true if 1 / (1 + e^-score) is the probability of the positive class, as for a logistic model.
    """

    coefficients: np.ndarray
    constant: float
    proba: bool = False


def unscaled(weights: np.ndarray, centres: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the coefficients (d,) and the constant with which Σ_j coefficients[j] × value_j + constant equals
    Σ_j weights[j] × (value_j - centres[j]) / widths[j].

    So the weights of a run, which sees features scaled by centre and width, apply to the features' own units.
    """
    coefficients = weights / widths
    return coefficients, -float(coefficients @ centres)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """The linear model that one run of a method released, in the units of the table. `Trace.model` returns it.

    linear_score : the linear function by which it predicts. data : declarations of the table that it was learnt from.
    guarantee : the protection of the rows in that table, with its conditions; "none: …" for a reference without
    privacy.

    Values outside of the declared ranges count as the nearest end of these, as they did in the run, and missing or
    infinite ones as the middle.
    """

    linear_score: LinearScore
    data: DatasetSpecification | GroupedSpecification
    guarantee: str

    @property
    def coef_(self) -> np.ndarray:
        """The coefficients (d,) of the features, in the order of `names`."""
        return self.linear_score.coefficients

    @property
    def intercept_(self) -> float:
        """The constant that is added to the sum of coefficient × value."""
        return self.linear_score.constant

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the d features; a column of categories makes one feature of each category."""
        return self._facts.names

    def __repr__(self) -> str:
        count, largest = len(self.coef_), np.argsort(-np.abs(self.coef_), kind="stable")[:3]
        terms = [f"{self.names[j]} {self.coef_[j]:+.3g}" for j in largest]
        if count > len(largest):
            terms.append("…")
        coefficients = "1 coefficient" if count == 1 else f"{count} coefficients"
        return f"<Model of {coefficients}: {', '.join(terms)}; {self.guarantee}>"

    @property
    def classes_(self) -> np.ndarray | None:
        """[False, True], the negative and the positive class; None for a target that is a number."""
        return None if self._predicts_numbers else np.array([False, True])

    @property
    def _facts(self) -> DatasetFacts | GroupedFacts:
        return self.data.facts()

    @property
    def _predicts_numbers(self) -> bool:
        """True if the target is a number, which has a declared range; False if it is one of two classes."""
        return getattr(self._facts, "target_range", None) is not None  # a table with groups has two classes

    def decision_function(self, rows: Any) -> np.ndarray:
        """Compute the score (n,) of rows, intercept + Σ coefficient × value. rows : as in `predict`."""
        low, high = np.array(self._facts.bounds).T  # (d,) each
        values = self._features(rows)
        values = np.where(np.isfinite(values), np.clip(values, low, high), (low + high) / 2)
        return np.asarray(self.intercept_ + values @ self.coef_)

    def predict(self, rows: Any) -> np.ndarray:
        """Predict the target (n,): true for the positive class, or a number in the target's own unit.

        Parameters
        ----------
        rows : DataFrame or ndarray (n, d)
            A table with the columns of the features, also of a library that exports Arrow data, or numbers in the order
            of `names`.

        Raises
        ------
        UserError
            If a column is missing, an array has another number of columns, or it holds no numbers.
        """
        score = self.decision_function(rows)
        return score if self._predicts_numbers else score > 0

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Predict the probabilities (n, 2) of the classes; of a logistic model only.

        Raises
        ------
        UserError
            If the model has no probabilities, or as `predict` does.
        """
        if not self.linear_score.proba:
            raise UserError(
                "Only a logistic model has probabilities. Use predict.", title="This model predicts no probability"
            )
        scores = np.clip(self.decision_function(rows), -700, 700)  # e^700 is a finite number
        positive = 1 / (1 + np.exp(-scores))
        return np.column_stack([1 - positive, positive])

    def score(self, rows: Any, y: Any = None) -> float:
        """Compute the share of rows whose class is predicted right, or R² for a target that is a number.

        It reads the rows, so it is not private: compute it on a test set alone, which the run has not seen.

        Parameters
        ----------
        rows : DataFrame or ndarray (n, d)
        y : sequence (n,), optional
            The target. By default the column of a DataFrame that was declared as target.

        Raises
        ------
        UserError
            If there is no target, or it does not fit the rows, or as `predict` does.
        """
        target = self.data.target if isinstance(self.data, UploadedTable | GroupedUpload) else None
        is_own_column = y is None
        if y is None:
            frame = _as_frame(rows)
            if frame is None or target not in frame.columns:
                raise UserError(
                    "Give y, or a DataFrame with the column of the target.", title="Nothing says what is right"
                )
            y = frame[target]
        predicted, truth = self.predict(rows), np.asarray(y)
        if truth.shape != predicted.shape or not len(truth):
            raise UserError(
                f"There are {len(predicted):,} rows, and y has the shape {truth.shape}. Give one target for each row.",
                title="There is nothing to score" if not len(predicted) else "Rows and y do not fit",
            )
        labels = pd.Series(y if isinstance(y, np.ma.MaskedArray) else truth)  # a masked entry is missing
        # Data without the setting `missing` leave no row out.
        if getattr(self.data, "missing", None) == "drop" and is_empty(labels).any():
            raise UserError("Leave these rows out, as the run did.", title="Some rows of y have no target")
        if not self._predicts_numbers:
            if not isinstance(self.data, UploadedTable | GroupedUpload):  # labels ±1, or True and False
                is_positive = column_numbers(labels) > 0
            elif labels.dtype == bool and not is_own_column and class_label(self.data.positive) != "False":
                is_positive = labels.to_numpy()  # as `predict` returns them, unless "False" names the positive class
            else:
                is_positive = encode_target(labels, self.data.positive) > 0
                if not is_positive.any():
                    warnings.warn(f"No row of y has the class {quote_name(self.data.positive)}.", stacklevel=2)
            return float((predicted == is_positive).mean())
        values = column_numbers(labels)
        if not np.isfinite(values).all():
            raise UserError("Leave these rows out.", title="Some rows of y have no finite number")
        unexplained, total = ((values - predicted) ** 2).sum(), ((values - values.mean()) ** 2).sum()
        if not total:
            raise UserError("R² compares with the spread of y, and y has none.", title="There is nothing to score")
        return float(1 - unexplained / total)

    def to_dict(self) -> dict[str, Any]:
        """Return coefficients by name, intercept, ranges, target and guarantee: all that a prediction needs."""
        facts = self._facts
        return {
            "coefficients": dict(zip(self.names, self.coef_.tolist(), strict=True)),
            "intercept": self.intercept_,
            "ranges": dict(zip(facts.names, facts.bounds, strict=True)),
            "target": getattr(self.data, "target", None),
            "positive": None if self._predicts_numbers else getattr(self.data, "positive", None),
            "predicts": "the score" if self._predicts_numbers else "positive where the score is above 0",
            "guarantee": self.guarantee,
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def _features(self, rows: Any) -> np.ndarray:
        """Return rows as numbers (n, d) in the order of `names`; categories become 0 or 1. Raises UserError."""
        frame = _as_frame(rows)
        if frame is not None:
            return self._features_of_frame(frame)
        try:
            values: np.ndarray = np.ma.filled(np.ma.asarray(rows, dtype=float), np.nan)
        except (TypeError, ValueError):
            raise UserError(
                "Give a DataFrame with the columns of the features, or an array of numbers.",
                title="These rows are no numbers",
            ) from None
        if values.ndim != 2 or values.shape[1] != len(self.names):
            first_names = ", ".join(self.names[:6])  # as many as a sentence has room for
            raise UserError(
                f"Rows need the shape (n, {len(self.names)}), for {first_names}, not {values.shape}.",
                title="These rows do not fit the model",
            )
        return values

    def _features_of_frame(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return the features (n, d) of a DataFrame, read as the run read its table if the user brought that table.

        No row is left out because of missing values. Raises UserError if a column is missing.
        """
        data = self.data
        if not isinstance(data, UploadedTable | GroupedUpload):
            check_columns(frame, self.names)
            return np.column_stack([column_numbers(frame[name]) for name in self.names])
        # Columns that `read` needs, although nothing depends on them here.
        for name in (data.target, getattr(data, "group", None), getattr(data, "user", None)):
            if name is not None and name not in frame.columns:
                frame = frame.assign(**{name: np.nan})
        table = data.replaced(missing="fill").read(frame).table  # "fill", so that every row gets a prediction
        if not len(table):
            return np.empty((0, len(self.names)))
        data = data.model_copy(update={"n": len(table)})  # in place of the run's n, which another table has not
        features, *_ = data.raw_rows({data.identity: table})  # targets, and groups or users, are not used
        return features


def _as_frame(rows: Any) -> "pd.DataFrame | None":
    """Return rows that have names of columns as `dpviz.table` reads them; None for rows without names."""
    is_table = isinstance(rows, pd.DataFrame) or hasattr(rows, "__arrow_c_stream__")
    if not is_table or isinstance(rows, pd.Series):  # a Series of pandas exports Arrow data, too
        return None
    return next(frame_blocks(rows))  # the only block, as it is in memory


def to_target(score: LinearScore, target: tuple[float, float] | None) -> LinearScore:
    """Return a score that predicts the target scaled to [-1, 1] as one that predicts it in its own unit.

    target : the range of the target; None for two classes, whose score stays as it is.
    """
    if target is None:
        return score
    low, high = target
    half = (high - low) / 2
    return LinearScore(half * score.coefficients, (low + high) / 2 + half * score.constant)
