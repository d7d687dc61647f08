"""The printed plan: all that was asked, in words, with the numbers of the plan; and nothing a name could inject."""

from html.parser import HTMLParser

import pytest

import dpviz
from dpviz.exports.export import to_report
from dpviz.numbers import short_up
from dpviz.privacy import tradeoffs
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.statistics.analyses import Analyses, Count, Histogram, Mean, Quantile, Statistic

STATISTICS: tuple[Statistic, ...] = (
    Count(name="<img src=x onerror=alert(1)>"),
    Mean(name='**&amp; "quoted"\' </li><script>', highest=5.0),
    Histogram(name="region", bins=12),
    Quantile(name="median", highest=100.0),
)


class Read(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "budget",
    [PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0, delta=1e-3), ZeroConcentratedDP(rho=0.1), GaussianDP(mu=0.5)],
    ids=lambda budget: budget.name,
)
def test_the_report_has_the_numbers_of_the_plan_and_takes_all_names_literally(budget: Budget) -> None:
    plan = Analyses(rows=4321, statistics=STATISTICS)
    found = Read(to_report(plan, budget, 1e-6, 0.05, "2031-02-03"))
    assert not found.tags & {"script", "img", "link", "iframe", "a"}
    assert found.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "scope"}
    for statistic in STATISTICS:
        assert statistic.name in found.text
    for p in plan.planned(budget):
        assert f"off by at most {short_up(p.error)}" in found.text and p.statistic.why(4321) in found.text
        assert f"{p.rows_needed(0.05):,} for an error of 5 % of {p.statistic.reference_name}" in found.text
    events = [p.event for p in plan.planned(budget)]
    assert (
        f"the same attacker is right in at most {short_up(50 * (1 + tradeoffs.advantage(events)))} of 100" in found.text
    )
    sentence = budget.consequences()[0].replace("**", "")
    assert sentence in found.text and budget.describe() in found.text and "4,321 rows" in found.text
    assert f"Made on 2031-02-03 by dpviz {dpviz.__version__}" in found.text
    # δ = 0.001 is above 1/4321, and allows to publish each row with that probability.
    assert ("with probability 0.001" in found.text) == isinstance(budget, ApproximateDP)
    assert "What is not covered" in found.text and plan.to_json() in found.text


def test_only_a_plan_without_anything_read_from_data_says_that_none_were_read() -> None:
    for from_data in (False, True):
        plan = Analyses(statistics=(Count(from_data=from_data),))
        found = Read(to_report(plan, PureDP(epsilon=1.0), 1e-6, 0.05, "2031-02-03")).text
        assert ("no data were read" in found, "some of which were read from the data" in found) == (
            not from_data,
            from_data,
        )


def test_epsilon_is_read_at_the_delta_of_the_budget() -> None:
    report = dpviz.statistics(ApproximateDP(epsilon=1.0, delta=1e-8), Count(), rows=1000).report(delta=1e-4)
    assert "ε at δ = 10⁻⁸" in report and "10⁻⁴" not in report


def test_no_name_turns_the_text_around() -> None:
    """After a right-to-left override a browser shows "off by at most 21" as "12 tsom ta yb ffo"."""
    plan = Analyses(statistics=(Count(name="\u202eevil\u2066"),))
    page = to_report(plan, PureDP(epsilon=1.0), 1e-6, 0.05, "2031-02-03")
    assert not set(page) & set("\u202e\u2066") and r"<strong>\u202eevil\u2066</strong>" in page


def test_what_holds_of_each_and_of_all_at_once_and_of_rounding_is_said() -> None:
    """0.95³ = 0.857."""
    found = Read(to_report(Analyses(statistics=STATISTICS[:3]), PureDP(epsilon=1.0), 1e-6, 0.05, "2031-02-03")).text
    assert "Those in the table hold at once in at least 85.7 of 100" in found
    assert found.count("rounded to whole numbers, which costs no privacy") == 2
    one = to_report(Analyses(statistics=STATISTICS[1:2]), PureDP(epsilon=1.0), 1e-6, 0.05, "2031-02-03")
    assert "hold at once" not in one and "rounded to whole" not in one and "in the unit of the column" in one


def test_the_report_asks_nobody_for_anything_and_has_a_style_for_paper() -> None:
    page = to_report(Analyses(statistics=STATISTICS[:1]), PureDP(epsilon=1.0), 1e-6, 0.05, "2031-02-03")
    assert "default-src 'none'; style-src 'unsafe-inline'" in page and "@media print" in page
    assert "http:" not in page and "https:" not in page and "url(" not in page
