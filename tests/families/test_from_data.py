"""Facts that were read from the data make nothing private: over everything that an upload may take from its file, and
L, in every family; in plans, traces, sweeps, comparisons and files."""

import csv
import importlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpviz.compare import comparison
from dpviz.compare.comparison import Side
from dpviz.compare.pins import Pin
from dpviz.datasets import (
    CategoricalUpload,
    CovertypeUpload,
    GroupedUpload,
    Prepared,
    Upload,
    UploadedTable,
    UserUpload,
    prepare,
    prepare_categories,
    prepare_groups,
    prepare_users,
)
from dpviz.datasets.uploads.upload import Mark, mark_phrases
from dpviz.execution.increments import Sender, add_increment
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import is_conditional
from dpviz.experiments.results import final_table
from dpviz.experiments.summary import summary
from dpviz.experiments.trace import Trace
from dpviz.exports.export import NOT_PRIVATE, sweep_to_csv, to_csv, to_notebook, to_script
from dpviz.plots import displayed
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.events import Laplace
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.linear_models import LeastSquares, LogisticRegression
from dpviz.specification import registered
from dpviz.sweeps.sweep import Sweep
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.families import FAMILIES
from tests.uploads import on, on_a_file

PAGES = {family.name: family.page() for family in FAMILIES}
Tables = Mapping[str, np.ndarray]
IF = "if these were known beforehand: "


def frame(rows: int = 240) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": generator.integers(18, 90, rows),
            "income": generator.normal(3000, 800, rows).round(),
            "area": generator.choice(["city", "town", "country"], rows),
            "who": np.arange(rows) // 2,
            "sick": generator.choice(["no", "yes"], rows),
        }
    )


def uploads() -> list[tuple[Upload, np.ndarray]]:
    """One of every kind, with its array."""
    bounds, area = {"age": (0.0, 120.0), "income": (0.0, 9000.0)}, {"area": ("city", "town")}
    chosen = (frame(), "sick", "yes", ["age", "income"], bounds)
    made: list[Prepared[Any]] = [
        prepare(*chosen, categories=area),
        prepare(frame(), "income", None, ["age"], bounds, target_range=(0.0, 9000.0)),
        prepare_users(frame(), user="who", target="sick", positive="yes", features=["age", "income"], bounds=bounds),
        prepare_groups(
            frame(), "sick", "yes", "area", ["age", "income"], bounds=bounds, groups=["city", "town"], shares=[0.3, 0.3]
        ),
        prepare_groups(
            frame(), None, None, "area", ["age", "income"], bounds=bounds, groups=["city", "town"], shares=[0.3, 0.3]
        ),
        prepare_categories(frame(), {**area, "sick": ("yes", "no")}),
    ]
    return [(one.specification, one.table) for one in made]


def marks_of(upload: Upload) -> list[Mark]:
    """All that a panel may take from the file."""
    found: list[Mark] = [("bounds", name) for name in getattr(upload, "names", ())]
    found += [("categories", name) for name, _ in [*getattr(upload, "categories", ()), *getattr(upload, "columns", ())]]
    if isinstance(upload, GroupedUpload):
        found += [("groups", upload.group), ("shares", upload.group)]
    if getattr(upload, "target_range", None) is not None:
        found.append(("bounds", str(getattr(upload, "target", ""))))
    return found


UPLOADS = uploads()
KINDS = [kind for kind in registered(ProblemSpecification) if "data" in kind.model_fields]


# ---------------------------------------------------------------------------------------------------- the facts say it


def test_every_problem_hands_on_what_was_read_from_its_table() -> None:
    """Each kind of problem on each kind of upload that it takes, for each thing that a panel may read from the file."""
    asked = set()
    for kind in KINDS:
        for upload, _ in UPLOADS:
            if (plain := on(kind, upload)) is None:
                continue
            assert plain.facts().from_data == plain.facts().released == () and not plain.facts().condition
            bought = on(kind, upload.replaced(ranges_costs=(0.3, 0.1)))
            assert bought is not None and bought.facts().released == (Laplace(0.3), Laplace(0.1))
            for mark in marks_of(upload):
                marked = on(kind, upload.replaced(from_data=(mark,)))
                assert marked is not None
                (words,) = marked.facts().from_data
                assert words == mark_phrases([mark])[0] and mark[1] in words and marked.from_data == (words,)
                assert str(marked.facts().condition) == f" {IF}{words}"
                asked.add((kind, mark[0]))
    assert {mark for _, mark in asked} == {"bounds", "categories", "groups", "shares"}
    uploadable = {kind for kind in KINDS if not kind.kind.endswith(("matrix_game", "lagrangian"))}
    generated = {kind for kind in uploadable if not any(kind == other for other, _ in asked)}
    assert all("LatentGame" in str(kind.model_fields["data"].annotation) for kind in generated)


def test_rows_that_were_left_out_for_what_is_in_them_make_their_number_known_beforehand_or_nothing_private() -> None:
    for upload, _ in UPLOADS:
        if "missing" in type(upload).model_fields:
            users = " and of users" * isinstance(upload, UserUpload)
            assert upload.replaced(missing="drop").read_from_rows == (f"the number of rows{users}",)
    assert CovertypeUpload(identity="0" * 32, n=100).read_from_rows == ("the number of rows",)


def test_an_estimated_smoothness_is_read_from_the_data_and_a_declared_or_bought_one_is_not() -> None:
    for kind in (LogisticRegression, LeastSquares):
        estimated = kind(smoothness=0.5, smoothness_source="estimated")
        assert estimated.facts().from_data == ("the smoothness L",)
        assert kind(smoothness=0.5, smoothness_source="declared").facts().from_data == ()
        bought = kind(smoothness=0.5, smoothness_source="released", smoothness_cost=0.1).facts()
        assert bought.from_data == () and bought.released


def test_marks_stay_with_the_settings_and_settings_without_any_still_load() -> None:
    for upload, _ in UPLOADS:
        marked = upload.replaced(from_data=tuple(marks_of(upload)))
        assert type(upload).from_json(marked.to_json()) == marked != upload
        assert marked.content_hash() != upload.content_hash() and eval(marked.to_python(), {**globals()}) == marked
        old = {name: value for name, value in json.loads(upload.to_json()).items() if name != "from_data"}
        assert type(upload).from_json(json.dumps(old)) == upload


def test_a_column_is_named_without_what_could_be_taken_for_more_than_a_name() -> None:
    name = 'a"""\n\\**b** <script>$x$ [l](u) #' + "c" * 60
    (words,) = mark_phrases([("bounds", name)])
    assert not set(words) & set('"\\*<>$[]#\n') and len(words) < 60
    assert mark_phrases([("bounds", "income € (gross)")]) == ("the range of “income € (gross)”",)
    several = mark_phrases([("bounds", str(place)) for place in range(9)])
    assert several == ("the ranges of “0”, “1”, “2” and 6 more",)


# ------------------------------------------------------------------------------------------------- and all that follows


def worlds() -> Iterator[tuple[str, ProblemSpecification, Budget, Tables]]:
    """Every kind of problem on an upload that a family's page offers, with all that can be read from the file marked
    as such."""
    marked = [
        (upload.replaced(from_data=tuple(marks_of(upload))), {upload.identity: array}) for upload, array in UPLOADS
    ]
    (declared, array), (_, (number, numbers), *_) = UPLOADS[0], marked
    estimated = {"smoothness": 0.5, "smoothness_source": "estimated"}
    for family, page in PAGES.items():
        budget = CURRENCIES[page.currency]()
        for kind in on_a_file(page.problems):
            fitting = ((on(kind, upload), tables) for upload, tables in marked)
            problem, tables = next((problem, tables) for problem, tables in fitting if problem is not None)
            yield family, problem, budget, tables
    pure = PureDP(epsilon=2.0)
    yield "accelerated", LogisticRegression(data=declared, **estimated), pure, {declared.identity: array}
    yield "accelerated", LeastSquares(data=number), pure, numbers


WORLDS = list(worlds())


def presets(family: str) -> ModuleType:
    return importlib.import_module(f"dpviz.families.{family}.presets")


def planned(family: str, problem: ProblemSpecification, budget: Budget) -> Experiment:
    """All methods of a family that have a plan, in few steps, and its references."""
    found = presets(family)
    short = {"iterations": 2, "rounds": 4, "epochs": 2, "epoch_length": 4}
    arms = found.arms(list(found.METHODS), references=True, **short)
    experiment = Experiment(problem=problem, arms=arms[:16], budget=budget, replicates=2, seed=1)
    return experiment.planned().ready()


@pytest.mark.parametrize(("family", "problem", "budget", "tables"), WORLDS)
def test_every_plan_of_such_facts_says_on_what_its_guarantee_rests(
    family: str, problem: ProblemSpecification, budget: Budget, tables: Tables
) -> None:
    experiment = planned(family, problem, budget)
    read, seeded = f" {IF}{'; '.join(problem.from_data)}", " if nobody learns the seed and" * (not problem.public)
    condition = seeded + read
    assert problem.from_data and experiment.guarantee == budget.describe() + condition
    assert experiment.replaced(seed=None).guarantee == budget.describe() + read or problem.public
    private = {label: plan for label, plan in experiment.plans().items() if plan.private}
    assert private
    for label, plan in experiment.plans().items():
        assert plan.privacy == (experiment.privacy if label in private else "not private")
        assert plan.guarantee == plan.budget.describe() + condition * plan.private
    for sentence in results.cost_sentences(results.costs(private, private, budget, 2, 1e-6)):
        assert sentence.endswith(condition)
    assert isinstance(problem.dataset, Upload)
    paid = planned(family, problem.replaced(data=problem.dataset.replaced(ranges_costs=(0.1,))), budget).plans()
    for plan in (paid[label] for label in private):
        assert plan.facts.released[0] == Laplace(0.1), "bought ranges come off the budget of every method"
        assert budget.spent(plan.events, plan.facts.released) <= budget.limit * (1 + 1e-9)
    for text in (to_script(experiment), to_notebook(experiment)):
        assert f"{problem.unit}{condition}" in text
    compile(to_script(experiment), "script.py", "exec")
    assert Experiment.from_json(experiment.to_json()).guarantee == experiment.guarantee
    assert Pin("p", experiment).travels == problem.public


def ran(family: str, problem: ProblemSpecification, budget: Budget, tables: Tables) -> tuple[Experiment, Trace]:
    """Two methods of a family and a reference, run."""
    whole = planned(family, problem, budget)
    plans = whole.plans()
    private = sorted(
        (arm for arm in whole.arms if plans[arm.label].private), key=lambda arm: plans[arm.label].iterations
    )
    experiment = whole.replaced(arms=(*private[:2], *[arm for arm in whole.arms if arm.reference][:1]))
    return experiment, experiment.run(tables)


@pytest.mark.parametrize(("family", "problem", "budget", "tables"), WORLDS)
def test_program_and_notebook_of_a_file_mark_all_that_is_not_released(
    family: str,
    problem: ProblemSpecification,
    budget: Budget,
    tables: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without diagnostics none of it is shown: no reference, no objective, no accuracy of the majority, no time."""
    experiment, trace = ran(family, problem, budget, tables)
    raw = {name for name, column in results.columns(trace).items() if not column.released} - {"best_step"}  # of another
    (tmp_path / "your_file.csv").write_text(frame().to_csv(index=False))
    monkeypatch.chdir(tmp_path)
    for diagnostics in (False, True):
        monkeypatch.setattr(sys, "argv", ["script.py", "your_file.csv", *["--diagnostics"] * diagnostics])
        names: dict[str, Any] = {}
        exec(to_script(experiment), names)
        said = f"Guarantee: {experiment.promise}."
        printed, _, _ = capsys.readouterr().out.partition("The picture: ")
        assert printed == f"{names['table'].to_string(index=False)}\n{said}\n"
        cells = [cell["source"] for cell in json.loads(to_notebook(experiment))["cells"] if cell["cell_type"] == "code"]
        cell = "".join(chain(*([*source, "\n"] for source in cells)))
        shown: dict[str, Any] = {}
        exec(cell.replace("DIAGNOSTICS = False", f"DIAGNOSTICS = {diagnostics}"), shown)
        references = [arm.label for arm in experiment.arms if arm.reference]
        for table in (names["table"], shown["table"]):
            assert not raw & set(table) and not set(references) & set(table["algorithm"])
            marks = [name for name in (*table, *table["algorithm"]) if name.endswith("(not private)")]
            assert bool(marks) == diagnostics and (not diagnostics or len(table) == len(experiment.arms))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "problem", "budget", "tables"), WORLDS)
def test_nothing_of_such_a_run_is_called_private(
    family: str, problem: ProblemSpecification, budget: Budget, tables: Tables
) -> None:
    experiment, trace = ran(family, problem, budget, tables)
    plans, visible = experiment.plans(), trace.visible(False)
    assert visible.arm_traces and {lane.privacy for lane in visible.arm_traces.values()} == {experiment.privacy}
    assert is_conditional(experiment.privacy) and "known beforehand" in experiment.privacy
    assert not visible.to_frame()["released"].any()
    assert bool(visible.metrics) == any(arm.algorithm.metrics for arm in experiment.arms)
    assert all(
        set(trace.privacy_by_arm(metric).values()) == {"not private"}
        for metric in trace.metrics.values()
        if not metric.released
    )
    text = to_csv(visible, experiment, plans)
    table = pd.read_csv(io.StringIO(text), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert all(name.endswith(NOT_PRIVATE) for name in [*table][3:]) and len([*table]) > 4
    head = [line for line in text.splitlines() if line.startswith("#")]
    claims = [line for line in head if "epsilon = " in line or "guarantee" in line or "publishing" in line]
    assert len(claims) >= 3 and all(IF + problem.from_data[0] in line for line in claims)
    assert any("read from the data, and paid for by no budget" in line for line in head)
    kept = summary(visible)
    side = Side("one", experiment, plans, kept)
    for metric in kept.metrics:
        ends = comparison.ends([side], metric, all_methods=True)
        assert set(ends["status"]) == {experiment.privacy} and ends["budget"].str.contains(IF).all()
        assert not any(curve.released for curve in comparison.curves([side], metric, "steps", all_methods=True))
    arrived = Trace({})
    add_increment(arrived, *Sender().increment(trace, last=True))
    assert [lane.privacy for lane in arrived.arm_traces.values()] == [
        lane.privacy for lane in trace.arm_traces.values()
    ]
    assert "seconds" in final_table(trace, plans) and "seconds" not in final_table(visible, plans)


@pytest.mark.slow
def test_nothing_of_a_sweep_over_such_runs_is_called_private() -> None:
    family, problem, budget, tables = WORLDS[0]
    experiment, _ = ran(family, problem, budget, tables)
    sweep = Sweep(experiment=experiment, fields=("budget.epsilon",), values=(1.0, 2.0), metric="distance")
    *_, step = sweep.stream(tables)
    result = step.result.visible(False)
    assert result.curves and not result.to_frame()["released"].any()
    text = sweep_to_csv(result, sweep)
    assert "distance_nonprivate" in text and any(
        line.startswith("#") and problem.from_data[0] in line and "read from the data" in line
        for line in text.splitlines()
    )


def told(experiment: Experiment, trace: Trace, tables: Tables) -> dict[str, str]:
    """All that is said of what private methods release, by who says it: one text for each."""
    plans, visible = experiment.plans(), trace.visible(False)
    private = {label: plan for label, plan in plans.items() if plan.private}
    sweep = Sweep(experiment, epsilon=(1.0, 2.0), metric="distance")
    side = Side("one", experiment, private, summary(visible))
    ends, together = (
        comparison.ends([side], "distance", all_methods=True),
        comparison.joint_cost([side, side], 1e-6, True),
    )
    return {
        "experiment": displayed._line(experiment),
        **{f"plan of {label}": f"{plan!r} {plan.privacy}" for label, plan in private.items()},
        "costs": " ".join(results.cost_sentences(results.costs(private, private, experiment.budget, 2, 1e-6))),
        "curves": displayed.chart(visible, False).caption,
        "badge of the curves": displayed.chart(visible, False).provenance,
        "sweep": displayed.chart(sweep.run(tables), False).caption,
        "compared": " ".join([*ends["status"], *ends["budget"]]),
        "compared costs": "" if together is None else together.describe(),
        "script": to_script(experiment).splitlines()[1],
        "notebook": "".join(json.loads(to_notebook(experiment))["cells"][0]["source"]),
        "table": next(line for line in to_csv(visible, experiment, plans).splitlines() if "guarantee of one" in line),
        "arrived": " ".join(lane.privacy for lane in _sent(visible).arm_traces.values()),
    }


def _sent(trace: Trace) -> Trace:
    """A trace as it comes from another process."""
    arrived = Trace({})
    add_increment(arrived, *Sender().increment(trace, last=True))
    return arrived


def test_a_fixed_seed_stands_in_all_that_is_said_of_a_run_on_a_file_and_a_fresh_one_in_nothing() -> None:
    """And everything declared, with a fresh seed, is private: else the tests above would say nothing."""
    upload, array = UPLOADS[0]
    tables = {upload.identity: array}
    seeded, trace = ran("accelerated", LogisticRegression(data=upload), PureDP(epsilon=2.0), tables)
    assert seeded.guarantee == "ε = 2 if nobody learns the seed"
    assert not trace.visible(False).to_frame()["released"].any()
    text = to_csv(trace.visible(False), seeded, seeded.plans())
    table = pd.read_csv(io.StringIO(text), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert "not private: the settings above hold the seed" in text and '"seed":1' in text.replace(" ", "")
    assert all(name.endswith(NOT_PRIVATE) for name in [*table][3:])
    for who, said in told(seeded, trace, tables).items():
        assert "the seed" in said, who

    fresh = seeded.replaced(seed=None)
    trace = fresh.run(tables)
    assert fresh.guarantee == "ε = 2" and trace.visible(False).to_frame()["released"].all()
    for who, said in told(fresh, trace, tables).items():
        assert "the seed" not in said and "private if" not in said and "beforehand" not in said, who
    text = to_csv(trace.visible(False), fresh, fresh.plans())
    assert "seed of" not in text and "Guarantee" not in to_script(fresh)
    table = pd.read_csv(io.StringIO(text), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert "distance" in table and not any(name.endswith(NOT_PRIVATE) for name in table)
    assert isinstance(upload, UploadedTable) and not isinstance(upload, UserUpload | CategoricalUpload)


def test_a_seed_on_public_data_is_no_condition() -> None:
    experiment = Experiment(LogisticRegression(), presets("accelerated").arms(["DP-GD"], iterations=2), seed=1)
    assert not experiment.condition and experiment.plan(experiment.arms[0]).privacy == "private"
