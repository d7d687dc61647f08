"""Statistics of a table of your own under one budget: their noise and their error, planned without reading a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from dpviz.arguments import Between, ByName, Delta, check_fields, checked
from dpviz.errors import UserError
from dpviz.exports.export import to_report
from dpviz.later import pd
from dpviz.numbers import short_up
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Relation, described
from dpviz.privacy.statistics.analyses import Analyses, PlannedStatistic, Statistic, smallest_budget

Error = Annotated[float, Between(0, 1)]
WANTED = 0.05  # the relative error for which the rows that it needs are computed


@dataclass(frozen=True, repr=False)
class Statistics:
    """Statistics that share a budget, as `dpviz.statistics` plans them.

    analyses : the statistics, the number of rows and the kind of noise. budget : the budget of all together.

    >>> import dpviz
    >>> plan = dpviz.statistics(dpviz.ZeroConcentratedDP(rho=0.1), dpviz.Count("smokers"), rows=10_000)
    >>> plan.planned["smokers"].error
    4
    """

    analyses: Analyses
    budget: Budget

    def __post_init__(self) -> None:
        check_fields(self)
        names = [statistic.name for statistic in self.analyses.statistics]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"Several statistics are called {name!r}. Give each a name of its own.")

    @property
    def planned(self) -> Mapping[str, PlannedStatistic]:
        """Each statistic with its share of the budget, by name: `error`, `scale`, `rows_needed` and more."""
        return ByName({planned.statistic.name: planned for planned in self.analyses.planned(self.budget)}, "statistic")

    def __repr__(self) -> str:
        errors = (
            f"{name} ± {short_up(planned.error)} {planned.statistic.unit}".rstrip()  # without a unit, no blank
            for name, planned in self.planned.items()
        )
        return f"<Statistics of {self.analyses.rows_text} rows at {self.budget.describe()}, 95 %: {'; '.join(errors)}>"

    def _repr_html_(self) -> str:
        """Return the table of `to_frame`, for Jupyter."""
        html: str = self.to_frame().to_html(index=False)
        return html

    @checked
    def to_frame(self, error: Error = WANTED) -> "pd.DataFrame":
        """Return a table with a row for each statistic.

        Parameters
        ----------
        error : float
            The relative error for which `rows_needed` is computed, as a share of what `relative_to` names.

        Returns
        -------
        pandas.DataFrame
            name, asked, noise, scale, sensitivity, standard_deviation; error, which the noise exceeds in 5 % of
            releases, and error_of_all, the same for the largest of several numbers, both in `unit`; share of the
            budget, cost; rows_needed for an error of `error`, relative_to. The unit "column" is that of the column.
        """
        rows = [
            {
                "name": planned.statistic.name,
                "asked": planned.statistic.description,
                "noise": planned.noise,
                "scale": planned.scale,
                "sensitivity": planned.sensitivity,
                "standard_deviation": planned.standard_deviation,
                "error": planned.error,
                "error_of_all": planned.largest_error,
                "unit": planned.statistic.unit or "column",
                "share": planned.share.fraction,
                "cost": described(planned.event),
                "rows_needed": planned.rows_needed(error),
                "relative_to": planned.statistic.reference_name,
            }
            for planned in self.planned.values()
        ]
        return pd.DataFrame(rows)

    @checked
    def smallest(self, error: Error = WANTED) -> "Statistics":
        """Return the same statistics with the smallest budget, and its shares, that meets the accepted errors.

        Parameters
        ----------
        error : float
            The relative 95 % error of statistics without an `accepted_error`, as a share of what `relative_to` names.

        Raises
        ------
        UserError
            If no budget of this currency is enough.

        Examples
        --------
        >>> import dpviz
        >>> asked = [dpviz.Mean("age", highest=100, accepted_error=0.5), dpviz.Count("smokers", accepted_error=20)]
        >>> dpviz.statistics(dpviz.PureDP(1), asked, rows=10_000).smallest()
        <Statistics of 10,000 rows at ε = 0.207, 95 %: age ± 0.498; smokers ± 20 rows>
        """
        smallest = smallest_budget(self.analyses, self.analyses.accepted_errors(error), self.budget)
        return Statistics(smallest.plan, smallest.budget)

    @checked
    def report(self, error: Error = WANTED, delta: Delta = 1e-6) -> str:
        """Return the planner's report, a page of HTML to print.

        Parameters
        ----------
        error : float
            As in `to_frame`.
        delta : float
            The δ at which ε is read, unless the budget has a δ of its own.
        """
        return to_report(self.analyses, self.budget, delta=delta, relative=error, day=date.today().isoformat())


@checked
def statistics(
    budget: Budget,
    asked: Statistic | Sequence[Statistic],
    *,
    rows: int,
    rows_per_person: int = 1,
    relation: Relation = "replace-one",
    noise: Literal["smaller", "laplace", "gaussian"] = "smaller",
) -> Statistics:
    """Plan counts, sums, means, histograms and quantiles of a table of your own under one budget; no data are read.

    Parameters
    ----------
    budget : Budget
        Of all statistics together; each gets a part in proportion to its `weight`.
    asked : Count, Sum, Mean, Histogram or Quantile, or several of them
        With names that differ, and the declared ranges and bins.
    rows : int
        Number of rows, which is public under "replace-one".
    rows_per_person : int
        The largest number of rows of one person, all of which are protected together.
    relation : "replace-one" or "add/remove-one"
        Whether the rows of a person are replaced by others, or are added or removed. In the latter case the number of
        rows is secret, and `rows` an assumption for the errors.
    noise : "smaller", "laplace" or "gaussian"
        Of numbers; quantiles are drawn by the exponential mechanism.

    Returns
    -------
    Statistics
        With `to_frame()`, `report()`, and `planned`, the numbers of each.

    Raises
    ------
    UserError
        If the budget does not exist for this noise, cannot be split, or a name is there twice.

    Source
    ------
    `dpviz/privacy/THEORY.md`, section 11.

    Examples
    --------
    >>> import dpviz
    >>> asked = [dpviz.Mean("age", lowest=0, highest=100), dpviz.Count("smokers")]
    >>> plan = dpviz.statistics(dpviz.PureDP(epsilon=1), asked, rows=10_000)
    >>> plan
    <Statistics of 10,000 rows at ε = 1, 95 %: age ± 0.06; smokers ± 6 rows>
    >>> by_region = dpviz.Mean("age", highest=100, by="region", groups=("north", "south"))
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), by_region, rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: age ± 0.165>
    >>> plan.to_frame()[["name", "error", "unit", "rows_needed"]].round(3).values.tolist()
    [['age', 0.06, 'column', 120], ['smokers', 6.0, 'rows', 120]]
    """
    listed = (asked,) if isinstance(asked, Statistic) else tuple(asked)
    plan = Analyses(rows=rows, rows_per_person=rows_per_person, relation=relation, noise=noise, statistics=listed)
    result = Statistics(plan, budget)
    result.analyses.planned(budget)  # so that a mistake raises its error now
    return result
