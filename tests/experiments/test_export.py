import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.datasets import prepare, prepare_categories, prepare_groups
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.export import file_name, to_csv, to_script
from dpviz.experiments.results import final_table
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.mirror_descent.algorithms import SyntheticData, VertexSampling
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, NoPrivacy, PureDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.group_loss import GroupLoss, LossMatrix
from dpviz.problems.linear_models import LogisticRegression
from dpviz.problems.marginals import MarginalQueries
from dpviz.problems.quadratic import Quadratic

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
    table = final_table(experiment.run(tables), experiment.plans())
    return table.drop(columns="seconds").to_string(index=False)


def ran(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")


def test_the_csv_holds_every_recorded_value(experiment: Experiment) -> None:
    trace, plans = experiment.run(), experiment.plans()
    text = to_csv(trace, experiment, plans)
    frame = pd.read_csv(io.StringIO(text), comment="#")
    tidy = trace.to_frame()
    assert len(frame) == 3 * (7 + 5 + 7)
    for (label, metric), expected in tidy.groupby(["algorithm", "metric"]):
        released = trace.lanes[label].released(trace.metrics[metric])
        column = metric if released else f"{metric}_nonprivate"
        found = frame[frame["algorithm"] == label].sort_values(["iteration", "replicate"])[column]
        np.testing.assert_array_equal(found, expected.sort_values(["iteration", "replicate"])["value"])


def test_the_csv_tells_raw_data_columns_and_privacy_spent(experiment: Experiment) -> None:
    plans = experiment.plans()
    text = to_csv(experiment.run(), experiment, plans)
    frame = pd.read_csv(io.StringIO(text), comment="#")
    assert set(frame.columns) == {
        *("algorithm", "replicate", "iteration", "spent_epsilon", "spent_mu", "noise_scale"),
        *("distance", "noisy_gradient_norm", "objective_gap_nonprivate", "gradient_norm_nonprivate"),
        *("distance_nonprivate", "noisy_gradient_norm_nonprivate"),  # of the arm without privacy
    }
    first, second, plain = (frame[frame["algorithm"] == arm.label] for arm in experiment.arms)
    plan = plans[experiment.arms[0].label]
    np.testing.assert_array_equal(first["spent_epsilon"], plan.spent("epsilon")[first["iteration"]])
    assert first["spent_mu"].isna().all() and second["spent_mu"].max() == pytest.approx(1.0)
    assert plain["spent_epsilon"].isna().all() and (plain["noise_scale"].dropna() == 0).all()
    later = first[first["iteration"] > 0]
    np.testing.assert_array_equal(later["noise_scale"], plan.schedule["noise_scale"][later["iteration"] - 1])
    assert first[first["iteration"] == 0]["noise_scale"].isna().all()


def test_the_csv_header_rebuilds_the_experiment(experiment: Experiment) -> None:
    lines = to_csv(experiment.run(), experiment, experiment.plans()).splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert header == lines[: len(header)] and header[0] == f"# dpviz {dpviz.__version__}"
    assert Experiment.from_json(header[1].removeprefix("# settings: ")) == experiment
    assert any("_nonprivate" in line for line in header[2:])


def test_a_stopped_run_is_exported_as_far_as_it_went(experiment: Experiment) -> None:
    stream = experiment.stream()
    step = next(stream)
    frame = pd.read_csv(io.StringIO(to_csv(step.trace, experiment, experiment.plans())), comment="#")
    assert set(frame["algorithm"]) == {step.label} and (frame["iteration"] == 0).all()
    stream.close()


def test_an_epsilon_delta_budget_is_booked_in_rho() -> None:
    experiment = Experiment(
        problem=Quadratic(rows=2000, dimension=2),
        arms=(Arm(label="a", algorithm=Nesterov(iterations=3, noise="gaussian")),),
        budget=ApproximateDP(epsilon=1.0, delta=1e-6),
        replicates=1,
    )
    plans = experiment.plans()
    frame = pd.read_csv(io.StringIO(to_csv(experiment.run(), experiment, plans)), comment="#")
    np.testing.assert_array_equal(frame["spent_rho"], plans["a"].spent("rho"))


def test_the_script_prints_the_same_numbers(experiment: Experiment, tmp_path: Path) -> None:
    script = to_script(experiment, "accelerated")
    settings = script.index("SETTINGS")
    assert len(script[:settings].splitlines()) + len(script[script.index("\n}\n") :].splitlines()) < 20
    assert file_name("accelerated", experiment, "py") in script
    result = ran(script, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {})


def test_the_script_of_an_upload_takes_the_table_and_checks_its_hash(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age\n'''": rng.random(60), "dose": rng.random(60), "ill": rng.integers(0, 2, 60)})
    features = ["age\n'''", "dose"]
    upload = prepare(frame, "ill", None, features, dict.fromkeys(features, (0.0, 1.0)), drop_missing=False)
    experiment = Experiment(
        problem=LogisticRegression(data=upload.specification),
        arms=(Arm(label="DP-GD", algorithm=GradientDescent(iterations=3)),),
        budget=PureDP(epsilon=2.0),
        replicates=2,
        seed=1,
    )
    script = to_script(experiment)
    digest = upload.specification.sha256
    assert digest in script and "(60, 3)" in script
    assert digest == hashlib.sha256(upload.table.data).hexdigest()

    np.save(tmp_path / "table.npy", upload.table)
    result = ran(script, tmp_path, "table.npy")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {digest: upload.table})

    np.save(tmp_path / "other.npy", upload.table + 1)
    refused = ran(script, tmp_path, "other.npy")
    assert refused.returncode == 1 and "another table" in refused.stderr and not refused.stdout


def uploads() -> dict[str, tuple[ProblemSpecification, np.ndarray, str, str]]:
    """Per kind of uploaded table: a problem on it, the table, its type and shape, and what its last column holds."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(60), "b": rng.random(60), "ill": rng.integers(0, 2, 60)})
    frame["area"] = np.resize(["north", "south", "east"], 60)
    ranges = dict.fromkeys("ab", (0.0, 1.0))
    learning = prepare_groups(frame, "ill", None, "area", ["a", "b"], ranges, ["north", "south", "east"])
    losses = prepare_groups(frame, None, None, "area", ["a", "b"], ranges, ["north", "south"])
    survey = prepare_categories(frame, {"area": ["north", "south"], "ill": ["0", "1"]})
    grouped = "the place of the row's group"
    return {
        "group loss": (GroupLoss(data=learning.specification), learning.table, "float64 of shape (60, 4)", grouped),
        "loss matrix": (LossMatrix(data=losses.specification), losses.table, "float64 of shape (60, 4)", grouped),
        "marginals": (
            MarginalQueries(data=survey.specification),
            survey.table,
            "int16 of shape (60, 2)",
            "the place of each row's category",
        ),
    }


@pytest.mark.parametrize("kind", ["group loss", "loss matrix", "marginals"])
def test_the_script_of_a_game_says_what_table_it_takes_and_runs_on_it(kind: str, tmp_path: Path) -> None:
    problem, table, form, contents = uploads()[kind]
    algorithm = SyntheticData(iterations=4) if kind == "marginals" else VertexSampling(iterations=4)
    experiment = Experiment(
        problem=problem,
        arms=(Arm(label="A", algorithm=algorithm),),
        budget=ApproximateDP(epsilon=2.0, delta=1e-5),
        replicates=2,
        seed=1,
    )
    script, digest = to_script(experiment), hashlib.sha256(table.data).hexdigest()
    assert digest in script and form in script and contents in script and "-1 or +1" not in script
    assert max(map(len, script.partition("SETTINGS")[0].splitlines())) <= 120
    assert max(map(len, script.partition("experiment = Experiment")[2].splitlines())) <= 120

    np.save(tmp_path / "table.npy", table)
    result = ran(script, tmp_path, "table.npy")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == printed(experiment, {digest: table})


def test_the_script_contains_the_settings_and_nothing_that_they_could_inject(experiment: Experiment) -> None:
    found: dict[str, object] = {}
    literal = to_script(experiment).partition("SETTINGS = ")[2].partition("\n\nexperiment = ")[0]
    exec(f"settings = {literal}", {"__builtins__": {}}, found)
    assert json.loads(experiment.to_json()) == found["settings"]


def test_file_names_follow_the_settings(experiment: Experiment) -> None:
    name = file_name("accelerated", experiment, "csv")
    assert name == f"dpviz_accelerated_{experiment.content_hash()[:8]}.csv"
    assert name != file_name("accelerated", experiment.replaced(seed=6), "csv")
