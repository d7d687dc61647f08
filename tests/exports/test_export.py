import io
import json
import subprocess
import sys
from hashlib import md5, sha1, sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.datasets import detect_reading, prepare, prepare_categories, prepare_groups, read_table
from dpviz.datasets.uploads.parsing import Bins
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import final_table
from dpviz.exports.export import file_name, sweep_to_csv, to_csv, to_script, to_table
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.mirror_descent.methods.algorithms import SyntheticData, VertexSampling
from dpviz.families.second_order import ShortStep
from dpviz.privacy.accounting.accountants import tightest
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, NoPrivacy, PureDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.linear.linear_models import HuberRegression, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import LogisticTukey
from dpviz.sweeps.sweep import Axis, Sweep

ROOT = Path(dpviz.__file__).parents[1]


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(
        problem=Quadratic(rows=2000, dimension=3),
        arms=(
            Arm(label='DP-GD, # 1: "quoted" \'\'\' """ {braces} \\', algorithm=GradientDescent(iterations=6)),
            Arm(label="DP-NAG ε", algorithm=Nesterov(iterations=4, noise="gaussian"), budget=GaussianDP(mu=1.0)),
            Arm(label="no privacy", algorithm=GradientDescent(iterations=6), budget=NoPrivacy()),
        ),
        budget=PureDP(epsilon=2.0),
        replicates=3,
        seed=5,
    )


def printed(experiment: Experiment, tables: dict[str, np.ndarray]) -> str:
    trace = experiment.run(tables).visible(experiment.public)
    table = final_table(trace, experiment.plans()).drop(columns="seconds", errors="ignore").to_string(index=False)
    return table + f"\nGuarantee: {experiment.promise}." * bool(experiment.condition)


def ran(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, str(path), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    table, drawn, name = done.stdout.partition("The picture: ")
    if drawn:
        assert "Plotly.newPlot" in (folder / name.strip()).read_text(encoding="utf-8")
    done.stdout = table
    return done


TEXTS = ("algorithm", "status")


def read_exactly(text: str) -> pd.DataFrame:
    """The table below the header; pandas 2.2 rounds the last digit of a number unless Python reads it."""
    names = pd.read_csv(io.StringIO(text), comment="#", nrows=0).columns
    number = {name: lambda cell: float(cell or "nan") for name in names if name.split("_")[0] not in TEXTS}
    whole = dict.fromkeys(("replicate", "iteration"), int)
    return pd.read_csv(io.StringIO(text), comment="#", converters=number | whole)


def test_the_csv_holds_every_recorded_value(experiment: Experiment) -> None:
    trace, plans = experiment.run(), experiment.plans()
    frame = read_exactly(to_csv(trace, experiment, plans))
    tidy = trace.to_frame()
    assert len(frame) == 3 * (7 + 5 + 7)
    for (label, metric), expected in tidy.groupby(["algorithm", "metric"]):
        released = trace.arm_traces[label].released(trace.metrics[metric])
        column = metric if released else f"{metric}_nonprivate"
        found = frame[frame["algorithm"] == label].sort_values(["iteration", "replicate"])[column]
        np.testing.assert_array_equal(found, expected.sort_values(["iteration", "replicate"])["value"])


def test_the_csv_tells_raw_data_columns_and_privacy_spent(experiment: Experiment) -> None:
    plans = experiment.plans()
    frame = read_exactly(to_csv(experiment.run(), experiment, plans))
    assert set(frame.columns) == {
        *("algorithm", "replicate", "iteration", "spent_epsilon", "spent_mu", "passes", "noise_scale"),
        *("distance", "noisy_gradient_norm", "objective_gap_nonprivate", "gradient_norm_nonprivate"),
        *("distance_nonprivate", "noisy_gradient_norm_nonprivate"),  # of the arm without privacy
        *("status", "status_nonprivate"),
    }
    first, second, plain = (frame[frame["algorithm"] == arm.label] for arm in experiment.arms)
    plan = plans[experiment.arms[0].label]
    np.testing.assert_array_equal(first["spent_epsilon"], plan.spent("epsilon")[first["iteration"]])
    assert set(first["status"]) == {"running", "exhausted"} and plain["status"].isna().all()
    assert first["spent_mu"].isna().all() and second["spent_mu"].max() == pytest.approx(1.0)
    assert plain["spent_epsilon"].isna().all() and (plain["noise_scale"].dropna() == 0).all()
    later = first[first["iteration"] > 0]
    np.testing.assert_array_equal(later["noise_scale"], plan.noise["gradient"][later["iteration"] - 1])
    assert first[first["iteration"] == 0]["noise_scale"].isna().all()


def test_the_csv_header_rebuilds_the_experiment(experiment: Experiment) -> None:
    lines = to_csv(experiment.run(), experiment, experiment.plans()).splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert header == lines[: len(header)] and header[0] == f"# dpviz {dpviz.__version__}"
    assert Experiment.from_json(header[1].removeprefix("# settings: ")) == experiment
    assert any("_nonprivate" in line for line in header[2:])


def test_the_csv_header_states_each_guarantee_on_the_finer_grid() -> None:
    arms = tuple(
        Arm(label=noise, algorithm=Nesterov(iterations=30, noise=noise, batch_fraction=0.1))  # type: ignore[arg-type]
        for noise in ("laplace", "gaussian")
    )
    budget = ApproximateDP(epsilon=1.0, delta=1e-5)
    experiment = Experiment(problem=Quadratic(rows=2000, dimension=2), arms=arms, budget=budget, replicates=1)
    plans = experiment.plans()
    text = to_csv(experiment.run(), experiment, plans)
    for label, plan in plans.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"# one whole run of {label}: "))
        epsilon = float(line.split("epsilon = ")[1].split(" ")[0])
        assert line.endswith("at delta = 1e-05 (privacy loss distribution, fine grid)")
        assert epsilon == pytest.approx(tightest(plan.events, 1e-5, precision="fine").epsilon, rel=1e-8)
        assert epsilon < tightest(plan.events, 1e-5).epsilon <= 1


def test_noise_that_follows_releases_is_a_bound_in_the_table() -> None:
    arms = (Arm(label="A", algorithm=ShortStep(at_state=True)),)
    own = Experiment(LogisticTukey(), arms, rho=1, replicates=2)
    table = to_table(own.run(), own.plans()).query("iteration > 0")
    assert "noise_scale" not in table and (table["gradient_noise"] < table["noise_scale_at_most"]).all()


def test_a_stopped_run_is_exported_as_far_as_it_went(experiment: Experiment) -> None:
    stream = experiment.stream()
    step = next(stream)
    frame = pd.read_csv(io.StringIO(to_csv(step.trace, experiment, experiment.plans())), comment="#")
    assert set(frame["algorithm"]) == {step.label} and (frame["iteration"] == 0).all()
    stream.close()  # type: ignore[attr-defined]


def test_an_epsilon_delta_budget_is_booked_in_rho() -> None:
    experiment = Experiment(
        problem=Quadratic(rows=2000, dimension=2),
        arms=(Arm(label="a", algorithm=Nesterov(iterations=3, noise="gaussian")),),
        budget=ApproximateDP(epsilon=1.0, delta=1e-6),
        replicates=1,
    )
    plans = experiment.plans()
    frame = read_exactly(to_csv(experiment.run(), experiment, plans))
    np.testing.assert_array_equal(frame["spent_rho"], plans["a"].spent("rho"))


@pytest.mark.slow
def test_the_script_prints_the_same_numbers(experiment: Experiment, tmp_path: Path) -> None:
    script = to_script(experiment, "accelerated")
    settings = script.index("SETTINGS")
    assert len(script[:settings].splitlines()) + len(script[script.index("\n}\n") :].splitlines()) < 20
    assert file_name("accelerated", experiment, "py") in script
    result = ran(script, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {})


# What a user's file may hold: a name that is no identifier, gaps, text among numbers, groups and classes not declared.
TABLE = pd.DataFrame({"age\n'''": np.linspace(0, 1, 60), "dose": np.linspace(2, -2, 60), "ill": np.arange(60) % 2})
TABLE["area"] = np.resize(["north", "south", "east"], 60)
TABLE["dose"] = [*TABLE["dose"][:3], None, "none of it", np.inf, 1e300, *TABLE["dose"][7:]]
FEATURES = ["age\n'''", "dose"]


def uploads(table: pd.DataFrame) -> dict[str, tuple[ProblemSpecification, Algorithm, np.ndarray]]:
    """Per kind of uploaded table: a problem on it, a method for that, and the table that the page made."""
    ranges = dict.fromkeys(FEATURES, (0.0, 1.0))
    identity = "a1" * 16
    plain = prepare(table, "ill", "1", FEATURES, ranges, identity=identity)
    dropped = prepare(table, "ill", "1", FEATURES, ranges, drop_missing=True, identity=identity)
    mixed = prepare(
        table,
        "dose",
        None,
        FEATURES[:1],
        ranges,
        drop_missing=True,
        identity=identity,
        categories={"area": ["north", "east"], "ill": Bins((0.5,))},
        target_range=(-1.0, 3.0),
    )
    learning = prepare_groups(
        table,
        "ill",
        "1",
        "area",
        FEATURES,
        bounds=ranges,
        groups=["north", "south"],
        shares=[0.6, 0.3],
        identity=identity,
    )
    losses = prepare_groups(
        table,
        None,
        None,
        "area",
        FEATURES,
        bounds=ranges,
        groups=["north", "east"],
        shares=[0.5, 0.4],
        identity=identity,
    )
    survey = prepare_categories(table, {"area": ["north"], "ill": ["1"], "dose": Bins((0.0, 0.5))}, identity=identity)
    descent, vertices = GradientDescent(iterations=3), VertexSampling(iterations=4)
    return {
        "plain": (LogisticRegression(data=plain.specification), descent, plain.table),
        "dropped rows": (LogisticRegression(data=dropped.specification), descent, dropped.table),
        "a number and categories": (HuberRegression(data=mixed.specification), descent, mixed.table),
        "groups": (GroupLoss(data=learning.specification), vertices, learning.table),
        "losses": (LossMatrix(data=losses.specification), vertices, losses.table),
        "categories": (MarginalQueries(data=survey.specification), SyntheticData(iterations=4), survey.table),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "dropped rows", "a number and categories", "groups", "losses", "categories"])
def test_the_script_of_an_upload_reads_the_users_own_file(kind: str, tmp_path: Path) -> None:
    content = TABLE.to_csv(index=False).encode()
    problem, algorithm, table = uploads(read_table(content, "mine.csv"))[kind]
    experiment = Experiment(
        problem=problem,
        arms=(Arm(label="A", algorithm=algorithm),),
        budget=ApproximateDP(epsilon=2.0, delta=1e-5),
        replicates=2,
        seed=3,
    )
    script = to_script(experiment)
    assert "FILE" in script and max(map(len, script.partition("SETTINGS")[0].splitlines())) <= 120
    (tmp_path / "mine.csv").write_bytes(content)
    result = ran(script, tmp_path, "mine.csv")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {"a1" * 16: table})
    if kind != "dropped rows":
        return
    assert ran(script, tmp_path).returncode == 2
    (tmp_path / "mine.csv").write_bytes(TABLE[:40].to_csv(index=False).encode())
    refused = ran(script, tmp_path, "mine.csv")
    assert refused.returncode == 1 and "another table" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.slow
def test_the_script_reads_the_file_as_the_page_did(tmp_path: Path) -> None:
    rows = [f"{place}.{100 + place};{'ja' if place % 3 else 'nein'};{place % 7},5" for place in range(1, 101)]
    content = "\n".join(["sep=;", *rows]).encode()
    reading = detect_reading(content, "mine.txt").reading.replaced(decimal=",", missing=("6,5",), sample_rows=60)
    frame = read_table(content, "mine.txt", reading=reading)
    ranges = {"Column 1": (0.0, 100_000.0), "Column 3": (0.0, 7.0)}
    upload = prepare(frame, "Column 2", "ja", list(ranges), ranges, reading=reading)
    assert upload.table[:, 0].min() > 1000 and len(upload.table) == 60 and upload.notes
    experiment = Experiment(
        problem=LogisticRegression(data=upload.specification),
        arms=(Arm(label="A", algorithm=GradientDescent(iterations=3)),),
        seed=1,
        replicates=2,
    )
    (tmp_path / "mine.txt").write_bytes(content)
    result = ran(to_script(experiment), tmp_path, "mine.txt")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {upload.specification.identity: upload.table})
    secret = to_script(experiment.replaced(seed=None))
    assert "hold no seed" in secret and "hold no seed" not in to_script(experiment)
    first, second = (ran(secret, tmp_path, "mine.txt", "--diagnostics") for _ in range(2))
    assert first.returncode == 0 == second.returncode and first.stdout != second.stdout


def hashes(table: np.ndarray) -> list[str]:
    """What a noiseless function of the rows would look like."""
    rows = [table, *table, np.ascontiguousarray(table[:, :-1])]
    return [digest(np.ascontiguousarray(part).data).hexdigest() for part in rows for digest in (sha256, md5, sha1)]


@pytest.mark.parametrize("kind", ["plain", "dropped rows", "a number and categories", "groups", "losses", "categories"])
def test_what_leaves_the_page_is_the_same_whatever_the_rows_are(kind: str) -> None:
    other = TABLE.assign(dose=TABLE["dose"].iloc[::-1].to_numpy(), area=TABLE["area"].iloc[::-1].to_numpy())
    leaving = []
    for table in (TABLE, other):
        problem, algorithm, rows = uploads(table)[kind]
        experiment = Experiment(problem=problem, arms=(Arm(label="A", algorithm=algorithm),), budget=PureDP())
        names = [file_name("page", experiment, extension) for extension in ("csv", "py", "html")]
        plans = experiment.plans()
        header = to_csv(experiment.run({"a1" * 16: rows}), experiment, plans).partition("\nalgorithm")[0]
        leaving.append([experiment.to_json(), to_script(experiment), *names, *header.splitlines()[:3]])
        assert not any(digest in " ".join(leaving[-1]) for digest in hashes(rows))
    assert leaving[0] == leaving[1]


def test_the_script_contains_the_settings_and_nothing_that_they_could_inject(experiment: Experiment) -> None:
    found: dict[str, object] = {}
    literal = to_script(experiment).partition("SETTINGS = ")[2].partition("\n\nexperiment = ")[0]
    exec(f"settings = {literal}", {"__builtins__": {}}, found)
    assert json.loads(experiment.to_json()) == found["settings"]


def test_seeds_that_a_sweep_sets_are_a_condition_of_all_that_it_says() -> None:
    problem, algorithm, rows = uploads(TABLE)["plain"]
    own = Experiment(problem, (Arm(label="A", algorithm=algorithm),), epsilon=1)
    sweep = Sweep(experiment=own, fields=("seed",), values=(1.0, 2.0))
    assert not own.condition and sweep.condition.seeded
    text = sweep_to_csv(sweep.run({"a1" * 16: rows}), sweep)
    assert f"ε = 2 by adding up{sweep.condition}" in text and "not private: the settings above hold the seed" in text
    assert "no privacy" in own.replaced(arms=(Arm(label="A", algorithm=algorithm, budget=NoPrivacy()),)).promise


def test_file_names_follow_the_settings(experiment: Experiment) -> None:
    name = file_name("accelerated", experiment, "csv")
    assert name == f"dpviz_accelerated_{experiment.content_hash()[:8]}.csv"
    assert name != file_name("accelerated", experiment.replaced(seed=6), "csv")


def test_every_number_of_a_sweep_is_a_row_and_says_what_is_not_private(experiment: Experiment) -> None:
    sweep = Sweep(
        experiment=experiment,
        fields=("problem.rows",),
        values=(100.0, 2000.0),
        second=Axis(fields=("budget.epsilon",), values=(0.5, 1.0)),
        metric="distance",
    )
    result = sweep.run()
    text = sweep_to_csv(result, sweep)
    table = pd.read_csv(io.StringIO(text), comment="#")
    assert list(table) == ["algorithm", "data_seed", "replicate", "setting", "second_setting", "metric", "value"]
    assert len(table) == 3 * 4 * 3 and table["value"].notna().all()
    private = table["algorithm"] != "no privacy"
    assert set(table["metric"][private]) == {"distance"} and set(table["metric"][~private]) == {"distance_nonprivate"}
    header = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("#")]
    assert Sweep.from_json(header[1].removeprefix("sweep: ")) == sweep
    assert "setting: problem.rows" in header and "second_setting: budget.epsilon" in header
    assert "no privacy" not in sweep_to_csv(result.visible(False), sweep).split("value", 1)[1]
