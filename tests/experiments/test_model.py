"""Models that runs release: in the units of the table they say what the problem's own rows say."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import dpviz
from dpviz.datasets.base import DatasetSpecification
from dpviz.datasets.groups import GroupedSpecification
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import to_ball
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.model import Model
from dpviz.problems.nonconvex import MarginModel, SigmoidTukey
from dpviz.problems.tuning import model_tuning
from dpviz.problems.values.black_box import ReluNetwork, TableModel

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
GROUPS: dict[str, Any] = {"group": "town", "groups": ("A", "B"), "shares": (0.3, 0.3)}
GROUPED = dpviz.table(
    FRAME, target="sick", positive="yes", features=["age", "pay"], bounds=BOUNDS, constant=True, **GROUPS
)
METHOD = dpviz.Nesterov(iterations=20)
MODELS = (dpviz.LogisticRegression, CLASSES), (dpviz.LeastSquares, CLASSES), (dpviz.HuberRegression, NUMBERS)
PROBLEMS: dict[str, ProblemSpecification] = {
    f"{cls.__name__}, {data.target}, {scaling}, {intercept}": cls(data=data, scaling=scaling, intercept=intercept)
    for cls, data in (
        (dpviz.LogisticRegression, CLASSES),
        (dpviz.LeastSquares, CLASSES),
        (dpviz.HuberRegression, NUMBERS),
    )
    for scaling in ("unit", "centred")
    for intercept in ("yes", "no")
}
PROBLEMS |= {
    f"capped, {targets}": dpviz.CappedRegression(data=NUMBERS, targets=targets) for targets in ("symmetric", "unit")
}
PROBLEMS |= {
    "group loss": dpviz.GroupLoss(data=GROUPED, loss="logistic", radius=2),
    "Tukey": dpviz.LogisticTukey(data=CLASSES, divisor=3),
    "sigmoid, as they are": SigmoidTukey(data=CLASSES, scaling="none", divisor=100),
    "tuned, classes": model_tuning.HuberRegression(data=CLASSES),
    "tuned, a number": model_tuning.HuberRegression(data=NUMBERS, most_features=1),  # the other's coefficient is 0
}


def _scores(problem: Any, x: np.ndarray) -> np.ndarray:
    """The predictions of x (d,) for the table's rows by the problem's own arrays, in the unit of the target."""
    if isinstance(problem, LinearModel):
        score = problem.rows(problem.data.load(problem.carried)).features @ x
    elif isinstance(problem, MarginModel):
        data = problem.data.load(problem.carried)
        score = data.labels * (problem.rows(data)[0] @ x)
    elif isinstance(problem, dpviz.GroupLoss):
        return np.asarray(problem.data.load(problem.carried).features @ to_ball(x, problem.radius))
    elif isinstance(problem, model_tuning.HuberRegression):
        score = x[0] + problem.rows(problem.carried).features @ x[1:]
        score = score if problem.data.facts().target_range is None else score / 2  # of a target in [-2, 2]
    else:
        score = problem.rows_and_targets(problem.carried)[0] @ x
        score = 2 * score - 1 if problem.targets == "unit" else score
    target = problem.data.facts().target_range
    return np.asarray(score if target is None else sum(target) / 2 + score * (target[1] - target[0]) / 2)


def test_a_model_says_of_the_table_what_the_problem_says() -> None:
    for name, problem in PROBLEMS.items():
        d = problem.facts().d_x if isinstance(problem, dpviz.GroupLoss) else problem.facts().d
        x = np.random.default_rng(1).normal(size=d)
        model, expected = _model(problem, x), _scores(problem, x)
        np.testing.assert_allclose(model.decision_function(FRAME), expected, rtol=1e-9, atol=1e-9, err_msg=name)
        score = ((expected > 0) == (FRAME.sick == "yes")).mean()
        if getattr(problem.dataset.facts(), "target_range", None) is not None:
            score = 1 - ((FRAME.cost - expected) ** 2).mean() / FRAME.cost.var(ddof=0)
        assert model.score(FRAME) == pytest.approx(score), name


@pytest.mark.parametrize("positive", ["False", 0])
def test_a_positive_class_false_is_scored_as_the_run_learnt_it(positive: str | int) -> None:
    frame = FRAME[["age"]].assign(sick=FRAME.age > 40)
    data = dpviz.table(frame, target="sick", positive=positive, features=["age"], bounds={"age": (0, 100)})
    model = _model(dpviz.LogisticRegression(data=data, intercept="yes"), np.array([-1.0, 0.4]))
    np.testing.assert_array_equal(model.predict(frame), ~frame.sick)
    assert model.score(frame) == model.score(frame, frame.sick.astype(str)) == 1


def _model(problem: ProblemSpecification, x: np.ndarray) -> Model:
    score, data = problem.linear_score(x), problem.dataset
    assert score is not None and isinstance(data, DatasetSpecification | GroupedSpecification)
    return Model(score, data, "none")


def test_a_run_s_model_is_that_of_its_release_with_its_guarantee() -> None:
    problem = dpviz.LogisticRegression(data=CLASSES)
    experiment = dpviz.Experiment(problem, METHOD, epsilon=5, replicates=2)
    trace = experiment.run()
    output = trace.arm_trace("DP-NAG").output["x"]
    for replicate in (0, 1):
        model = trace.model("DP-NAG", replicate)
        np.testing.assert_allclose(model.decision_function(FRAME), _scores(problem, output[replicate]), atol=1e-9)
    assert model.guarantee == experiment.promise and list(model.classes_) == [False, True]
    proba = model.predict_proba(FRAME)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, model.predict(FRAME))
    saved = json.loads(model.to_json())
    assert saved["coefficients"] == dict(zip(model.names, model.coef_.tolist(), strict=True))
    assert (saved["target"], saved["positive"]) == ("sick", "yes")
    arms = [dpviz.Arm("own", dpviz.Nesterov(iterations=2), dpviz.PureDP(3)), dpviz.Arm("ours", METHOD)]
    several = dpviz.Experiment(problem, arms, epsilon=1, replicates=1)
    assert several.guarantee == "ε = 3 (own), ε = 1 (ours)"
    assert several.run().model("own").guarantee == "ε = 3, one row replaced"
    free = several.replaced(arms=(dpviz.Arm("free", METHOD, dpviz.NoPrivacy()),))
    assert free.run().model("free").guarantee == "none: it was trained without privacy"
    bought = dpviz.LogisticRegression(data=problem.data.replaced(ranges_costs=(0.5,)))
    own_alone = several.replaced(problem=bought, budget=dpviz.NoPrivacy())
    assert own_alone.guarantee == "ε = 3" and "includes ε = 0.5" in own_alone.promise
    assert own_alone.replaced(arms=arms[1:], seed=1).promise == "no privacy, one row replaced"


def test_a_run_of_every_family_has_a_model_whose_json_text_alone_predicts_the_same() -> None:
    without_groups = FRAME.drop(columns=["town", "sick"])
    cases: list[tuple[ProblemSpecification, Any, dict[str, float]]] = [
        (dpviz.LeastSquares(data=NUMBERS), METHOD, {"epsilon": 1}),
        (dpviz.GroupLoss(data=GROUPED), dpviz.VertexSampling(iterations=4), {"epsilon": 5, "delta": 1e-5}),
        (dpviz.LogisticTukey(data=TWO_FEATURES), dpviz.ShortStep(iterations=4), {"rho": 1}),
        (dpviz.CappedRegression(data=NUMBERS), dpviz.DirectionalDescent(descent_steps=4), {"mu": 1}),
        (model_tuning.HuberRegression(data=NUMBERS), dpviz.RandomSearch(), {"mu": 1}),
    ]
    for problem, method, budget in cases:
        trace = dpviz.Experiment(problem, method, **budget).run()
        (label,) = trace.arm_traces
        model = trace.model(label)
        saved = json.loads(model.to_json())
        values = without_groups.assign(constant=1.0)
        clipped = [values[name].clip(*saved["ranges"][name]) * c for name, c in saved["coefficients"].items()]
        score = saved["intercept"] + sum(clipped)
        np.testing.assert_allclose(model.decision_function(without_groups), score, rtol=1e-9, atol=1e-12)
        assert problem.unit in saved["guarantee"]


def test_values_outside_of_the_ranges_count_as_their_ends_and_missing_ones_as_the_middle() -> None:
    model = _model(dpviz.LogisticRegression(data=TWO_FEATURES), np.array([1.0, -2.0]))
    rows = np.array([[1e9, 0.0], [100.0, 0.0], [np.nan, -1e9], [50.0, -10.0]])
    far, end, missing, middle = model.decision_function(rows)
    assert (far, missing) == (end, middle)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(rows, columns=["age", "pay"])), model.predict(rows))


def test_new_rows_are_read_as_the_table_was() -> None:
    model = _model(dpviz.LogisticRegression(data=TWO_FEATURES), np.array([1.0, -2.0]))
    expected = model.decision_function(FRAME)
    for rows in (pyarrow.Table.from_pandas(FRAME[["pay", "sick", "age"]]), FRAME.rename(columns={"pay": "pay "})):
        np.testing.assert_array_equal(model.decision_function(rows), expected)
        assert model.score(rows) == model.score(FRAME)
    assert len(model.predict(FRAME[:0])) == 0
    with pytest.warns(UserWarning, match="'yes'"):
        model.score(FRAME, np.ones(N))


def test_what_has_no_model_and_what_does_not_fit_one_is_said() -> None:
    trace = dpviz.Experiment(dpviz.Quadratic(), METHOD, epsilon=1).run()
    game = dpviz.Experiment(dpviz.MatrixGame(), dpviz.VertexSampling(iterations=2), epsilon=1, delta=1e-6).run()
    regression = _model(dpviz.LeastSquares(data=NUMBERS), np.ones(2))
    network: TableModel = ReluNetwork(data=NUMBERS)
    assert network.linear_score(np.ones(3)) is None
    wrong = [
        lambda: trace.model("DP-NAG"),
        lambda: game.model(*game.arm_traces),
        lambda: trace.model("Nesterov"),
        lambda: dpviz.Experiment(dpviz.LogisticRegression(data=CLASSES), METHOD, epsilon=1).run().model("DP-NAG", 7),
        lambda: regression.predict_proba(FRAME),
        lambda: regression.predict(np.ones((3, 5))),
        lambda: regression.predict(FRAME[["age"]]),
        lambda: regression.score(np.ones((3, 2))),
        lambda: regression.predict([["a", "b"]]),
        lambda: regression.predict({"age": [1.0], "pay": [1.0]}),
        lambda: regression.predict(pd.concat([FRAME, FRAME], axis=1)),
        lambda: regression.score(FRAME[:0]),
        lambda: regression.score(FRAME, [1.0, 2.0]),
        lambda: regression.score(FRAME, FRAME[["cost"]]),
        lambda: regression.score(FRAME, FRAME.cost.where(FRAME.age > 30)),
        lambda: regression.score(FRAME, np.ma.masked_less(FRAME.cost.to_numpy(), FRAME.cost.median())),
        lambda: regression.score(FRAME, np.ones(N)),  # R² of equal targets
    ]
    for call in wrong:
        with pytest.raises(dpviz.UserError):
            call()
