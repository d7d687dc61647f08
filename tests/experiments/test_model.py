"""Models that runs release: in the units of the table they say what the problem's own rows say."""

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.model import Model
from dpviz.problems.values.black_box import CappedRegression, ReluNetwork, TableModel

N = 60
_RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"age": _RNG.uniform(20, 60, N), "pay": _RNG.uniform(-5, 9, N), "town": ["A", "B", "C"] * (N // 3)}
)
FRAME = FRAME.assign(sick=np.where(FRAME.age + FRAME.pay > 42, "yes", "no"), cost=3 * FRAME.age + 7)
BOUNDS = {"age": (0, 100), "pay": (-10, 10)}
CLASSES = dpviz.table(
    FRAME, target="sick", positive="yes", features=["age", "pay"], bounds=BOUNDS, categories={"town": ("A", "B", "C")}
)
NUMBERS = dpviz.table(FRAME, target="cost", features=["age", "pay"], bounds=BOUNDS | {"cost": (0, 400)})
TWO_FEATURES = dpviz.table(FRAME, target="sick", positive="yes", features=["age", "pay"], bounds=BOUNDS)
METHOD = dpviz.Nesterov(iterations=20)
MODELS = (dpviz.LogisticRegression, CLASSES), (dpviz.LeastSquares, CLASSES), (dpviz.HuberRegression, NUMBERS)
PROBLEMS: Mapping[str, LinearModel | TableModel] = {
    f"{cls.__name__}, {data.target}, {scaling}, {intercept}": cls(data=data, scaling=scaling, intercept=intercept)
    for cls, data in (
        (dpviz.LogisticRegression, CLASSES),
        (dpviz.LeastSquares, CLASSES),
        (dpviz.HuberRegression, NUMBERS),
    )
    for scaling in ("unit", "centred")
    for intercept in ("yes", "no")
} | {f"capped, {targets}": CappedRegression(data=NUMBERS, targets=targets) for targets in ("symmetric", "unit")}


def _scores(problem: LinearModel | TableModel, x: np.ndarray) -> np.ndarray:
    """The predictions of x (d,) for the table's rows by the problem's own arrays, in the unit of the target."""
    if isinstance(problem, LinearModel):
        score = problem.rows(problem.data.load(problem.carried)).features @ x
    else:
        score = problem.drawn(problem.carried)[0] @ x
        score = 2 * score - 1 if problem.targets == "unit" else score
    target = problem.data.facts().target
    return np.asarray(score if target is None else sum(target) / 2 + score * (target[1] - target[0]) / 2)


def test_a_model_says_of_the_table_what_the_problem_says() -> None:
    for name, problem in PROBLEMS.items():
        x = np.random.default_rng(1).normal(size=problem.facts().d)
        model, expected = _model(problem, x), _scores(problem, x)
        np.testing.assert_allclose(model.decision_function(FRAME), expected, rtol=1e-9, atol=1e-9, err_msg=name)
        score = ((expected > 0) == (FRAME.sick == "yes")).mean()
        if problem.data.facts().target is not None:
            score = 1 - ((FRAME.cost - expected) ** 2).mean() / FRAME.cost.var(ddof=0)
        assert model.score(FRAME) == pytest.approx(score), name


def test_a_positive_class_false_is_scored_as_the_run_learnt_it() -> None:
    frame = FRAME[["age"]].assign(sick=FRAME.age > 40)
    data = dpviz.table(frame, target="sick", positive="False", features=["age"], bounds={"age": (0, 100)})
    model = _model(dpviz.LogisticRegression(data=data, intercept="yes"), np.array([-1.0, 0.4]))
    np.testing.assert_array_equal(model.predict(frame), ~frame.sick)
    assert model.score(frame) == model.score(frame, frame.sick.astype(str)) == 1


def _model(problem: LinearModel | TableModel, x: np.ndarray) -> Model:
    score = problem.linear_score(x)
    assert score is not None
    return Model(score, problem.data, "none")


def test_a_run_s_model_is_that_of_its_release_with_its_guarantee() -> None:
    problem = dpviz.LogisticRegression(data=CLASSES)
    experiment = dpviz.Experiment(problem, METHOD, epsilon=5, replicates=2)
    trace = experiment.run()
    output = trace.lane("DP-NAG").output["x"]
    for replicate in (0, 1):
        model = trace.model("DP-NAG", replicate)
        np.testing.assert_allclose(model.decision_function(FRAME), _scores(problem, output[replicate]), atol=1e-9)
    assert model.guarantee == experiment.promise and list(model.classes_) == [False, True]
    proba = model.predict_proba(FRAME)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, model.predict(FRAME))
    saved = json.loads(model.to_json())
    assert saved["coefficients"] == dict(zip(model.names, model.coef_.tolist(), strict=True))


def test_values_outside_of_the_ranges_count_as_their_ends_and_missing_ones_as_the_middle() -> None:
    model = _model(dpviz.LogisticRegression(data=TWO_FEATURES), np.array([1.0, -2.0]))
    rows = np.array([[1e9, 0.0], [100.0, 0.0], [np.nan, -1e9], [50.0, -10.0]])
    far, end, missing, middle = model.decision_function(rows)
    assert (far, missing) == (end, middle)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(rows, columns=["age", "pay"])), model.predict(rows))


def test_what_has_no_model_and_what_does_not_fit_one_is_said() -> None:
    trace = dpviz.Experiment(dpviz.Quadratic(), METHOD, epsilon=1).run()
    regression = _model(dpviz.LeastSquares(data=NUMBERS), np.ones(2))
    network: TableModel = ReluNetwork(data=NUMBERS)
    assert network.linear_score(np.ones(3)) is None
    wrong = [
        lambda: trace.model("DP-NAG"),
        lambda: trace.model("Nesterov"),
        lambda: dpviz.Experiment(dpviz.LogisticRegression(data=CLASSES), METHOD, epsilon=1).run().model("DP-NAG", 7),
        lambda: regression.predict_proba(FRAME),
        lambda: regression.predict(np.ones((3, 5))),
        lambda: regression.predict(FRAME[["age"]]),
        lambda: regression.score(np.ones((3, 2))),
    ]
    for call in wrong:
        with pytest.raises(dpviz.UserError):
            call()
