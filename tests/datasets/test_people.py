"""Uploads of every kind in which a person has several rows: which are kept, and whom the guarantee names."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.compare import comparison
from dpviz.datasets import Upload, UploadedTable
from dpviz.datasets.own_table import BoughtRanges
from dpviz.datasets.uploads import limits
from dpviz.experiments import results
from dpviz.experiments.summary import summary
from dpviz.exports.export import to_csv
from dpviz.families.accelerated import planning
from dpviz.families.mirror_descent import GaussianMarginals, GaussianMirrorDescent
from dpviz.families.second_order import advice
from dpviz.people import rows_kept
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.tuning.model_tuning import NormalLocation

K = 3
# Numbers that are the same class, signs with a meaning elsewhere, names that contain each other, and none at all.
NAMES = ["1", " 1.0", 'a"b', "a", "a\0", "a,b\n", "é" * 5000, "‮x", "=1+1", "True", "1e400", "", "  ", None]
PEOPLE = list(itertools.chain(*([name] * count for name, count in zip(NAMES, itertools.cycle([1, 5, 3, 4])))))
N = len(PEOPLE)
FRAME = pd.DataFrame(
    {
        "who": pd.Series(PEOPLE, dtype=object),
        "x": np.linspace(0, 1, N),
        "town": ["A", "B", "C"] * (N // 3) + ["A"] * (N % 3),
        "sick": ["yes", "no"] * (N // 2) + ["yes"] * (N % 2),
    }
).sample(frac=1, random_state=0, ignore_index=True)
OF_A_TARGET: dict[str, Any] = {"target": "sick", "positive": "yes", "bounds": {"x": (0, 1)}}
KINDS: dict[str, Callable[..., Any]] = {
    "table": lambda frame, **people: dpviz.table(frame, **OF_A_TARGET, features=["x"], **people),
    "groups": lambda frame, **people: dpviz.table(
        frame, **OF_A_TARGET, features=["x"], group="town", groups=["A", "B"], shares=[0.4, 0.3], **people
    ),
    "categories": lambda frame, **people: dpviz.table(
        frame, categories={"town": ("A", "B"), "sick": ("yes", "no")}, **people
    ),
}
PROBLEMS = {"table": dpviz.LogisticRegression, "groups": dpviz.GroupLoss, "categories": dpviz.MarginalQueries}
EVERY = pytest.mark.parametrize("kind", KINDS)
pytestmark = pytest.mark.filterwarnings("ignore:Not private, read off your rows")


def person_of(names: pd.Series) -> np.ndarray:
    """The person of each row, as a cell says it: 1 and 1.0 are one, and so are all rows without a name."""
    texts = ["" if name is None else name.strip() for name in names]
    return np.array(["1" if text == "1.0" else text for text in texts], dtype=object)


def array(data: Upload) -> np.ndarray:
    return np.asarray(data.carried[data.identity])


def epsilon_of_file(experiment: dpviz.Experiment) -> float:
    """ε of one run of the only method, as the table of the run states it."""
    text = to_csv(experiment.run(), experiment, experiment.plans(), delta=1e-6)
    (stated,) = re.findall(r"one whole run of [^:]*: epsilon = (\S+) at delta", text)
    return float(stated)


@EVERY
def test_of_each_person_at_most_k_rows_count_and_the_others_do_not(kind: str) -> None:
    numbered = FRAME.assign(x=np.arange(N) / N)  # so that a row of the table tells which row of the file it is
    whole = KINDS[kind](numbered)
    data = KINDS[kind](numbered, person="who", rows_per_person=K)
    people = person_of(numbered["who"])
    _, counts = np.unique(people, return_counts=True)
    assert data.n == np.minimum(counts, K).sum() == len(array(data)) < whole.n == N
    if kind != "categories":
        rows = np.rint(array(data)[:, 0] * N).astype(int)
        assert np.unique(people[rows], return_counts=True)[1].max() == K
        assert (np.diff(rows) > 0).all()  # in the order of the file


@EVERY
def test_replacing_all_rows_of_one_person_changes_their_rows_and_no_others(kind: str) -> None:
    generator = np.random.default_rng(1)
    data = KINDS[kind](FRAME, person="who", rows_per_person=K)
    before, kept = array(data), rows_kept(person_of(FRAME["who"]), K)
    for person in np.unique(person_of(FRAME["who"])):
        theirs = np.array([name == person for name in person_of(FRAME["who"])])  # NumPy would drop a last "\0"
        other = FRAME.copy()
        other.loc[theirs, "x"] = generator.choice([0.25, np.nan, 1e300], theirs.sum())
        other.loc[theirs, "town"] = generator.choice(["C", "Z", ""], theirs.sum())
        other.loc[theirs, "sick"] = generator.choice(["yes", "no", ""], theirs.sum())
        again = KINDS[kind](other, person="who", rows_per_person=K)
        assert again.n == data.n and again.facts() == data.facts()
        changed = (array(again) != before).any(axis=1)
        assert changed.sum() <= K and set(person_of(FRAME["who"])[kept[changed]]) <= {person}


@EVERY
def test_a_file_read_again_by_its_settings_has_the_same_rows(kind: str) -> None:
    data = KINDS[kind](FRAME, person="who", rows_per_person=K)
    again = type(data).from_json(data.to_json())
    np.testing.assert_array_equal(again.rows(FRAME), array(data))
    assert "who" in repr(data) and str(K) in repr(data)


@EVERY
def test_the_budget_is_that_of_a_person_and_every_text_says_so(kind: str) -> None:
    data = KINDS[kind](FRAME, person="who", rows_per_person=K)
    rows = KINDS[kind](FRAME.iloc[rows_kept(person_of(FRAME["who"]), K)])
    of_people, of_rows = (PROBLEMS[kind](data=upload) for upload in (data, rows))
    methods = {
        "table": dpviz.Nesterov(iterations=4),
        "groups": GaussianMirrorDescent(),
        "categories": GaussianMarginals(),
    }
    method = methods[kind]
    budget: Any = dpviz.PureDP(epsilon=3.0) if kind == "table" else dpviz.GaussianDP(mu=3.0)
    experiment = dpviz.Experiment(of_people, method, budget=budget)
    (plan,) = experiment.plans().values()
    (small,) = dpviz.Experiment(of_rows, method, budget=budget.per_row(K)).plans().values()
    for noise, of_a_row in zip(plan.noise.values(), small.noise.values(), strict=True):
        assert noise.tolist() == pytest.approx(of_a_row.tolist())
    assert plan.statement.budget == budget and plan.guarantee == budget.describe()
    assert budget.spent(plan.statement.events) == pytest.approx(3.0)
    assert (of_rows.unit, of_people.unit) == ("one row replaced", "one person with up to 3 rows replaced")
    assert of_people.unit in experiment.promise
    trace = experiment.run()
    table = dpviz.final_table(trace, experiment.plans(), delta=1e-6)
    assert table["spent"][0] == pytest.approx(3.0)
    (label,) = trace.arm_traces
    currency = budget.currency
    assert trace.spent(label)[1][-1].max() == pytest.approx(3.0)
    assert results.spent_curve(trace, label, plan, currency)[-1] == pytest.approx(3.0)
    assert results.composed_cost([(plan, 1)], plan.statement.facts.released, currency, 1e-6).spent == pytest.approx(3.0)
    assert "3" in results.describe_releases([(plan, 1)], budget)
    side = comparison.Side("it", experiment, experiment.plans(), summary(trace))
    name = next(iter(side.summary.series[label]))
    curves = comparison.curves([side], name, comparison.PRIVACY, True, currency)
    assert curves[0].x[-1] == pytest.approx(3.0)
    assert comparison.readings(side, 1e-6)[label] == pytest.approx(dpviz.epsilon(plan, 1e-6))
    assert epsilon_of_file(experiment) == pytest.approx(dpviz.epsilon(plan, 1e-6), rel=1e-3)


@EVERY
def test_the_rows_of_some_people_are_none_of_fewer_rows_of_them(kind: str) -> None:
    """As in a sweep over k: the array holds up to 3 rows of each, so a budget of people with one would not hold."""
    data = KINDS[kind](FRAME, person="who", rows_per_person=K)
    with pytest.raises(dpviz.UserError):
        data.replaced(rows_per_person=1).load(data.carried)
    data.replaced(from_data=()).load(data.carried)


@EVERY
def test_several_rows_of_nobody_are_refused(kind: str) -> None:
    with pytest.raises(dpviz.UserError):
        KINDS[kind](FRAME).replaced(rows_per_person=2)


@pytest.mark.parametrize("use", ["target", "feature", "group", "category"])
def test_the_column_of_people_has_no_other_use(use: str) -> None:
    people: dict[str, Any] = {"person": {"target": "sick", "feature": "x"}.get(use, "town"), "rows_per_person": K}
    kind = {"group": "groups", "category": "categories"}.get(use, "table")
    with pytest.raises(dpviz.UserError, match="person"):
        KINDS[kind](FRAME, **people)


def test_what_needs_more_than_rows_of_people_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(dpviz.UserError, match="tuning"):
        KINDS["table"](FRAME, person="who", user="who")
    with pytest.raises(dpviz.UserError, match="user="):
        NormalLocation(data=KINDS["table"](FRAME, person="who", rows_per_person=K))
    with pytest.raises(dpviz.UserError):
        KINDS["table"](FRAME, rows_per_person=2)
    bought = BoughtRanges({"x": (0, 1)}, (0.5,), ("x",))
    with pytest.raises(dpviz.UserError, match="user='who'"):
        dpviz.table(FRAME, target="sick", positive="yes", features=["x"], bounds=bought, person="who")
    of_rows = dpviz.table(FRAME, target="sick", positive="yes", features=["x"], bounds=bought)
    with pytest.raises(dpviz.UserError, match="'who'"):
        of_rows.replaced(person="who", rows_per_person=K)
    data = KINDS["table"](FRAME.assign(who=np.arange(N)), person="who")
    FRAME.assign(who=np.arange(N)).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(limits, "MAX_ROWS", N - 1)
    with pytest.raises(dpviz.UserError, match="as a whole"):
        KINDS["table"](tmp_path / "t.parquet", person="who")
    in_blocks = KINDS["table"](tmp_path / "t.parquet")
    with pytest.raises(dpviz.UserError, match="as a whole"):
        data.load({data.identity: in_blocks.carried[in_blocks.identity]})


def test_what_was_bought_for_a_person_costs_a_person_no_more() -> None:
    declared = {**OF_A_TARGET, "bounds": BoughtRanges({"x": (0, 1)}, (0.5,), ("x",), "who")}
    data = dpviz.table(FRAME, **declared, features=["x"], person="who", rows_per_person=K)
    assert isinstance(data, UploadedTable) and data.costs == (0.5,)
    experiment = dpviz.Experiment(dpviz.LogisticRegression(data=data), dpviz.Nesterov(iterations=4), epsilon=2)
    (plan,) = experiment.plans().values()
    assert plan.statement.spent("epsilon").tolist() == pytest.approx([0.5, 0.875, 1.25, 1.625, 2.0])
    assert "ε = 0.5 of releases before" in experiment.promise
    assert epsilon_of_file(experiment) == pytest.approx(dpviz.epsilon(plan, 1e-6), rel=1e-3) == 2.0


@pytest.mark.parametrize("released", [planning.release_smoothness, advice.release_gap], ids=["smoothness", "gap"])
def test_a_release_before_the_run_costs_a_person_what_it_says(released: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Laplace] = []
    laplace = Mechanisms.laplace

    def noted(mechanisms: Mechanisms, query: Any, event: Laplace, *more: Any) -> Any:
        events.append(event)
        return laplace(mechanisms, query, event, *more)

    monkeypatch.setattr(Mechanisms, "laplace", noted)
    data = KINDS["table"](FRAME, person="who", rows_per_person=K)
    problem: Any = dpviz.LogisticRegression(data=data)
    paid: dict[str, Any] = {"smoothness": 1.0, "smoothness_source": "released", "smoothness_cost": 0.3}
    if released is advice.release_gap:
        problem, paid = dpviz.LogisticTukey(data=data, start="random"), {"gap": 1.0, "gap_cost": 0.3}
    released(problem, 0.3, 1, data.carried)
    assert events == list(problem.replaced(**paid).released) == [Laplace(0.3 / K)]
    paid_for_rows = problem.replaced(data=KINDS["table"](FRAME), **paid)
    with pytest.raises(dpviz.UserError, match="'who'"):
        paid_for_rows.replaced(data=data)


def test_a_choice_of_rows_hangs_on_no_other_person_and_survives_any_text() -> None:
    people = np.array(["x"] * 9 + ["\ud800"] * 9 + ["x\0"] * 9, dtype=object)
    kept = rows_kept(people, 2)
    assert len(kept) == 6
    for person in set(people.tolist()):
        mine = np.flatnonzero(people == person)
        np.testing.assert_array_equal(np.intersect1d(kept, mine), mine[rows_kept(people[mine], 2)])
