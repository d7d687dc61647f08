"""The library as a notebook has it: pictures, short forms, a bar, saved settings."""

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import dpviz
import dpviz.extend
from dpviz import datasets
from dpviz.cli.main import run as shell
from dpviz.datasets import LatentGame, Saddle, UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.execution.auditing import Auditing
from dpviz.experiments.experiment import Experiment, Step
from dpviz.privacy.events import ExpMech, Gaussian, Laplace, Sub
from dpviz.sweeps.sweep import Sweep
from dpviz.ui.families import FAMILIES, named
from tests.wrong_values import FITS, MISTAKES, WRONG, Call, calls

SMALL = dpviz.Experiment(
    dpviz.Quadratic(), [dpviz.Nesterov(iterations=6), dpviz.GradientDescent(iterations=6)], epsilon=1, replicates=3
)

OWN = UploadedTable(identity="b" * 32, n=40, bounds=((0.0, 1.0), (0.0, 1.0)), names=("a", "b"))
CALLS = calls()
NEEDED: dict[str, dict[str, Any]] = {
    "Arm": {"label": "a", "algorithm": dpviz.Nesterov()},
    "Experiment": {"problem": dpviz.Quadratic(), "arms": dpviz.Nesterov()},
    "Sweep": {"experiment": SMALL, "fields": ("budget.epsilon",), "values": (0.5, 1.0)},
}


@pytest.fixture(scope="module")
def verdict() -> Any:
    return dpviz.audit(dpviz.GradientDescent, runs=400, seed=1)


def subjects(verdict: Any) -> Iterator[Any]:
    yield from (SMALL, SMALL.budget, SMALL.plans()["DP-NAG"], SMALL.run(), verdict)
    yield dpviz.Sweep(SMALL, epsilon=(0.5, 1, 2)).run()


def test_every_public_result_has_a_picture_and_shows_itself_in_a_notebook(verdict: Any) -> None:
    for subject in subjects(verdict):
        figure, shown = subject.figure(), subject._repr_html_()
        assert isinstance(figure, go.Figure) and figure.data, subject
        assert "Plotly.newPlot" in shown and ("private" in shown or "settings" in shown or "made up" in shown), subject


def test_the_lines_of_a_run_are_the_medians_of_its_page() -> None:
    trace = SMALL.run()
    (line,) = (line for line in trace.figure().data if line.name == "DP-NAG" and line.mode == "lines")
    _, values = trace.series("DP-NAG", "objective_gap")
    np.testing.assert_allclose(line.y, np.median(values, axis=1), rtol=1e-6)


def test_of_data_that_are_not_public_nothing_is_drawn_but_what_methods_release() -> None:
    table = np.column_stack([np.random.default_rng(0).uniform(size=(40, 2)), [1.0, -1.0] * 20])
    own = SMALL.replaced(problem=dpviz.LogisticRegression(data=OWN))
    assert (SMALL.seed, own.seed, own.replicates, own.replaced(seed=5).seed) == (0, None, 1, 5)
    trace = own.run({OWN.identity: table})
    assert not any("not private" in note.text for note in trace.figure().layout.annotations)
    assert "Not private" not in trace._repr_html_()
    asked = trace.figure(diagnostics=True)
    assert any("not private" in note.text for note in asked.layout.annotations)


def test_noise_that_is_calibrated_spends_the_budget_and_no_more() -> None:
    scale = dpviz.calibrate(dpviz.PureDP(epsilon=2), releases=8, sensitivity=3.0)
    assert scale == pytest.approx(12.0)
    assert dpviz.epsilon([Laplace(3.0 / scale)] * 8, delta=1e-12) <= 2 + 1e-9
    assert dpviz.calibrate(dpviz.ZeroConcentratedDP(rho=0.5), releases=4) == pytest.approx(2.0)
    plan = SMALL.plans()["DP-NAG"]
    assert dpviz.epsilon(plan, 1e-9) <= 1 + 1e-9 and dpviz.epsilon(SMALL.budget, 1e-6) <= 1
    for wrong in (lambda: dpviz.epsilon(plan, 0.0), lambda: dpviz.calibrate(dpviz.NoPrivacy())):
        with pytest.raises(UserError):
            wrong()
    with pytest.raises(UserError, match="Gaussian"):
        dpviz.calibrate(dpviz.PureDP(epsilon=1), noise="gaussian")


def test_an_audit_by_a_method_is_that_of_its_worst_case(verdict: Any) -> None:
    case = dpviz.families.audits()["accelerated"][0]
    again = dpviz.Audit(case, case.budgets[0], runs=400, seed=1).run()
    assert (verdict.bound, verdict.runs) == (again.bound, 400)
    assert dpviz.audit(dpviz.GradientDescent, dpviz.GaussianDP(mu=1), runs=100, seed=1).symbol == "μ"
    wrong: Any = (dpviz.ShortStep, dpviz.PureDP(epsilon=1)), (dpviz.ShortStep, dpviz.NoPrivacy()), (dpviz.PureDP, None)
    for method, budget in wrong:
        with pytest.raises(UserError):
            dpviz.audit(method, budget)


def test_settings_of_every_kind_are_opened_again(tmp_path: Any) -> None:
    auditing = Auditing(family="accelerated", case="gradient_descent", runs=300)
    for saved in (SMALL, Sweep(SMALL, epsilon=(1, 2)), auditing):
        path = tmp_path / "settings.json"
        path.write_text(saved.to_json())
        assert dpviz.open(path) == saved and dpviz.open(str(path)) == saved and dpviz.open(saved.to_json()) == saved
    for wrong in (tmp_path / "none.json", "a\0b", "{", "[1]", "http://localhost:8501/audit", "http://[::1"):
        with pytest.raises(UserError):
            dpviz.open(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_link_opens_the_experiment_of_its_page(family: str) -> None:
    first = next(entry for entry in FAMILIES if entry.name == family).page().presets[0].experiment
    program = "import sys, dpviz; print(dpviz.open(sys.argv[1]).to_json()); assert 'streamlit' not in sys.modules"
    address = f"http://localhost:8501/{family}"
    opened = subprocess.check_output([sys.executable, "-c", program, address], text=True, encoding="utf-8")
    assert Experiment.from_json(opened) == first
    with pytest.raises(UserError, match="Seed must be"):
        dpviz.open(f"{address}?{named(family).page().prefix}_seed=-1")
    # No other settings instead.
    for damaged in (f"{named(family).page().prefix}_seed=x\0", "s=eJx", "preset=none", "epsilon=3"):
        with pytest.raises(UserError, match=r"could not be read|is missing|no preset|no setting"):
            dpviz.open(f"{address}?{damaged}")


def test_a_bar_shows_the_progress_and_an_interrupt_keeps_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SMALL.run(progress=True)
    assert whole.arm_traces["DP-NAG"].iterations[-1] == 6
    stream = Experiment.stream

    def interrupted(self: Experiment, tables: Any) -> Iterator[Step]:
        for number, step in enumerate(stream(self, tables)):
            if number == 4:
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr(Experiment, "stream", interrupted)
    part = SMALL.run(progress=True)
    assert 0 < part.arm_traces["DP-NAG"].iterations[-1] < 6
    with pytest.raises(KeyboardInterrupt):
        SMALL.run()


EXTRA = ("distributed", "ipywidgets", "pyarrow", "sklearn", "starlette", "streamlit", "tqdm")  # packages of extras


def test_what_needs_a_missing_package_names_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in EXTRA:
        monkeypatch.setitem(sys.modules, package, None)
    presets = {preset.name: preset.experiment for family in dpviz.presets().values() for preset in family}
    sweep = dpviz.Sweep(SMALL, epsilon=(1, 2))
    needed: list[tuple[str, str, Callable[[], object]]] = [
        ("streamlit", "app", lambda: dpviz.open("http://localhost:8501/accelerated")),
        ("pyarrow", "app", lambda: dpviz.table("data/breast_cancer.parquet", target="malignant", bounds=(0, 1))),
        ("pyarrow", "app", lambda: dpviz.read_table(b"a,b\n1,2\n", "mine.csv")),
        ("pyarrow", "app", presets["Real data: doctor visits"].run),
        ("pyarrow", "app", presets["Synthetic data: health insurance"].run),
        ("sklearn", "app", presets["Figure 2, right: a hundred length-scales"].run),
        ("tqdm", "notebook", lambda: SMALL.run(progress=True)),
        ("distributed", "cluster", lambda: sweep.run(client="tcp://127.0.0.1:1")),
    ]
    for package, extra, call in needed:
        with pytest.raises(UserError) as refusal:
            call()
        assert str(refusal.value) == f"This needs {package}: pip install 'dpviz[{extra}]'."
    assert shell(["serve"]) == shell(["run", "Start here: same", "--out", "out.parquet"]) == 2
    assert capsys.readouterr().err.count("'dpviz[app]'") == 2


def alone(program: str) -> str:
    """What a program prints in a process of its own, as if the packages of the extras were not installed."""
    program = f"import sys\nsys.modules |= dict.fromkeys({EXTRA})\nimport dpviz\n{program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_library_alone_learns_draws_calibrates_and_audits() -> None:
    printed = alone("""
import numpy as np
data = dpviz.table((np.eye(20), np.ones(20)), positive=1, bounds=(0, 1))
trace = dpviz.Experiment(dpviz.LogisticRegression(data=data), dpviz.Nesterov(iterations=3), epsilon=1).run()
print(trace.model("DP-NAG").predict(np.eye(20)).shape, bool(trace.figure().data))
print(dpviz.calibrate(dpviz.PureDP(epsilon=1), 10), dpviz.audit(dpviz.GradientDescent, runs=200, seed=1).violation)
""")
    assert printed == "(20,) True\n10.0 False\n"


@pytest.mark.slow
def test_every_preset_but_those_of_bundled_tables_and_support_vectors_begins_in_the_library_alone() -> None:
    printed = alone("""
for family, presets in dpviz.presets().items():
    for preset in presets:
        preset.experiment.plans()
        try:
            for _, _ in zip(range(3), preset.experiment.replaced(replicates=1).stream({})):
                pass
        except dpviz.UserError:
            print(preset.experiment.problem)
        else:
            print(family, "begins")
print(*dpviz.presets(), sep="|")
""")
    *lines, families = printed.splitlines()  # of the library alone: another test may have added one here
    begun = {line.removesuffix(" begins") for line in lines if line.endswith(" begins")}
    assert begun == {*families.split("|")} and len(begun) == 5
    assert all("Bundled" in line or "KernelMachine" in line for line in lines if not line.endswith("begins"))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_wrong_argument_is_a_sentence_and_never_something_else(call: Call) -> None:
    """Whatever fits may be refused, too, but with a sentence."""
    call.function(**call.values)
    for name in call.values:
        for wrong, value in WRONG.items():
            try:
                call.function(**{**call.values, name: value})
            except UserError as error:
                assert str(error).rstrip().endswith((".", ".)")) and error.title, (name, wrong)
            else:
                assert wrong in FITS[call.kinds.get(name, "")], (name, wrong)


def test_every_public_function_is_called_with_wrong_values() -> None:
    functions = {name for name in dpviz.__all__ if isinstance(getattr(dpviz, name), FunctionType)}
    assert functions <= {call.name for call in CALLS}


def test_no_constructor_takes_what_it_has_no_use_for() -> None:
    classes = {name: found for name in dpviz.__all__ if isinstance(found := getattr(dpviz, name), type)}
    for name, cls in classes.items():
        for field in getattr(cls, "model_fields", {}):
            for wrong in ("object", "frame", "dataclass", "nan", "10**400", "class"):
                names_of_columns = {("Sweep", "fields", "frame"), ("Reading", "missing", "frame")}
                if (name, field, wrong) not in names_of_columns:
                    with pytest.raises(UserError) as caught:
                        cls(**NEEDED.get(name, {}) | {field: WRONG[wrong]})
                    assert "pydantic" not in str(caught.value) and "validation error" not in str(caught.value)
        if hasattr(cls, "model_fields"):
            with pytest.raises(UserError, match="no_such_setting"):
                cls(**NEEDED.get(name, {}), no_such_setting=1)


_nesterov: Any = dpviz.Nesterov
_pure: Any = dpviz.PureDP


def test_every_mistake_is_one_sentence_that_names_it() -> None:
    table = pd.DataFrame({"a": [0.1, 0.2] * 15, "y": [0, 1] * 15})
    names = {"dpviz": dpviz, "datasets": datasets, "np": np, "nan": math.nan, "inf": math.inf, "table": table}
    names |= {"small": partial(dpviz.Experiment, dpviz.Quadratic(), dpviz.Nesterov()), "experiment": SMALL}
    names |= {"plan": SMALL.plans()["DP-NAG"], "trace": SMALL.run(), "swept": dpviz.Sweep(SMALL, epsilon=(1, 2)).run()}
    # Its rows take 800 TB: more than a process can address.
    data = UniformLogistic(rows=10**9, dimension=10**5)
    names["huge"] = lambda: dpviz.Experiment(dpviz.LogisticRegression(data=data), dpviz.GradientDescent(2))
    assert len(MISTAKES) > 120
    for call, words in MISTAKES.items():
        with pytest.raises(UserError) as caught:
            eval(call, names)
            pytest.fail(call)
        sentence = f"{caught.value.title}: {caught.value}"
        assert all(word in sentence for word in words.split()), (call, sentence)
        assert sentence.endswith(".") and len(sentence) < 400 and sentence.count(". ") < 4, (call, sentence)
        assert not re.search("pydantic|validation|Input should|<class|Errno|Traceback", sentence), (call, sentence)


TUKEY = dpviz.LogisticTukey(data=Saddle(rows=300, dimension=1))
GAME = dpviz.MatrixGame(data=LatentGame(rows=10, strategies_x=5, strategies_y=1))
PHASES, TUNED = dpviz.PhaseRetrieval(rows=300, dimension=1), dpviz.LengthScales(training_rows=20)
BEYOND: list[tuple[Any, Any, dict[str, Any]]] = [  # problem, method, budget and more: each beyond the ranges of a page
    (dpviz.Quadratic(rows=1, dimension=1), dpviz.Nesterov(3), {"epsilon": 100, "replicates": 1_000}),
    (dpviz.Quadratic(rows=10**9, dimension=300), dpviz.HeavyBall(3, momentum=0.999), {"epsilon": 500}),
    (dpviz.Quadratic(clip=1e6, start=1e4), dpviz.MultistageNesterov(relative_step=1e-6), {"epsilon": 1e-6}),
    (dpviz.Quadratic(), dpviz.GradientDescent(20_000), {"epsilon": 1, "replicates": 1}),
    (
        dpviz.LogisticRegression(data=UniformLogistic(rows=2, dimension=1), regularisation=100),
        dpviz.GradientDescent(3, noise="gaussian"),
        {"epsilon": 100, "delta": 0.1},
    ),
    (TUKEY, dpviz.LineSearch(iterations=5_001, gradient_target=0.009), {"rho": 500}),
    (TUKEY, dpviz.TrustRegion(gradient_target=2.0, curvature_target=2.0), {"rho": 1e-8}),
    (PHASES, dpviz.VarianceReduced(iterations=8, travel=100), {"mu": 50}),
    (PHASES, dpviz.DirectionalDescent(descent_steps=8, clip=1e6), {"mu": 1e-6}),
    (GAME, dpviz.VertexSampling(2_000), {"epsilon": 100}),
    (dpviz.SparseRegression(rows=10, dimension=3, radius=100), dpviz.FrankWolfe(), {"epsilon": 100, "delta": 1e-12}),
    (TUNED, dpviz.Gibo(iterations=3, step_size=1e4, clip=1e3), {"mu": 50}),
    (TUNED, dpviz.RandomSearch(trainings=2), {"epsilon": 100}),
]


def test_what_the_formulas_allow_runs_though_no_page_offers_it() -> None:
    for problem, method, settings in BEYOND:
        experiment = dpviz.Experiment(problem, method, **{"replicates": 2, **settings})
        trace = experiment.run()
        assert trace.arm_traces[method.title].iterations[-1] > 0 and trace.figure().data, method
        assert dpviz.Experiment.from_json(experiment.to_json()) == experiment
        with pytest.raises(UserError, match="on a page"):
            experiment.check_ranges()


def test_values_may_be_given_by_position_in_the_order_of_the_settings() -> None:
    assert _pure(2) == dpviz.PureDP(epsilon=2)
    assert _nesterov(30, 0.5) == dpviz.Nesterov(iterations=30, relative_step=0.5)
    grid = dpviz.Sweep(SMALL, epsilon=(0.5, 1), iterations=(3, 6))
    assert grid.second is not None and grid.points_per_data_set == 4 and grid.fields == ("budget.epsilon",)


@pytest.mark.parametrize(
    "call",
    [
        lambda: dpviz.epsilon([Sub("wor", 1, 9, Laplace(1.0)), Sub("poisson", 1, 9, Laplace(1.0))], 1e-6),
        lambda: dpviz.epsilon(SMALL, 1e-6),
        lambda: dpviz.calibrate(dpviz.PureDP(epsilon=1), noise="Laplace"),
        lambda: dpviz.open('{"kind": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        lambda: dpviz.open('{"problem": ' * 500 + "1" + "}" * 500),
        lambda: SMALL.run({"0" * 32: np.ones((20, 3))}),
        lambda: dpviz.Sweep(SMALL, epsilon=(1, 2)).run({"0" * 32: np.ones((20, 3))}),
        lambda: SMALL.run({OWN.identity: np.ones((40, 3))}),
        lambda: dpviz.LogisticRegression(data=OWN).build({OWN.identity: "abc"}),
        lambda: dpviz.Sweep(SMALL, epsilon=(1, 2)).run().at(1.0),
        lambda: dpviz.Sweep(SMALL, epsilon=(1, 2)).run(client=SimpleNamespace(scheduler=None)),  # it was closed
    ],
)
def test_what_was_once_a_traceback_or_another_answer_is_a_sentence(call: Any) -> None:
    with pytest.raises(UserError) as refused:
        call()
    assert str(refused.value).endswith(".")


def test_noise_that_hides_nothing_has_no_finite_epsilon() -> None:
    for kind in (Laplace, Gaussian, ExpMech):
        for event in (kind(1e200), Sub("wor", 1, 9, kind(1e308)), Sub("poisson", 1, 9, kind(1e200))):
            assert dpviz.epsilon(event, 1e-6) == math.inf, event


def test_an_experiment_takes_a_budget_in_short_in_place_of_its_own() -> None:
    assert SMALL.replaced(mu=2) == SMALL.replaced(budget=dpviz.GaussianDP(2))


def test_a_sweep_by_the_name_of_its_setting_is_that_by_its_fields() -> None:
    short = dpviz.Sweep(SMALL, epsilon=(2, 0.5))
    assert short == Sweep(experiment=SMALL, fields=("budget.epsilon",), values=(0.5, 2.0), metric="objective_gap")
    assert short.run().axis == ("Privacy budget ε", "ε", True)
    for problem, address in ((dpviz.Quadratic(), "problem.rows"), (dpviz.LogisticRegression(), "problem.data.rows")):
        grid = dpviz.Sweep(SMALL.replaced(problem=problem), epsilon=(0.5, 1), rows=(100, 200))
        assert grid.second is not None and grid.second.fields == (address,)


def test_a_sweep_that_cannot_keep_its_points_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPVIZ_STORE", f"{__file__}/cells")  # in a file there is no folder
    with pytest.warns(UserWarning, match="Finished runs are not kept"):
        assert dpviz.Sweep(SMALL, epsilon=(0.5, 1)).run(store=True).finished == 2


@pytest.mark.slow
def test_a_sweep_runs_in_other_processes_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPVIZ_STORE", str(tmp_path))
    sweep = dpviz.Sweep(SMALL, epsilon=(0.5, 1, 2))
    here, elsewhere = sweep.run(), sweep.run(workers=2, store=True)
    again = sweep.run(store=True)
    for result in (elsewhere, again):
        np.testing.assert_array_equal(result.medians("DP-NAG")[1], here.medians("DP-NAG")[1])
    assert len(list(tmp_path.rglob("*"))) > 3
    monkeypatch.setattr(Experiment, "stream", None)  # whatever is not in the store would fail
    assert sweep.run(store=True).finished == 3
    with pytest.raises(UserError):
        sweep.run(client="nowhere")
