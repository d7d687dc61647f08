"""The page of zeroth-order optimisation: the plan before a run, the advice, presets, problems, files of its own."""

import re
from urllib.parse import parse_qs

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable
from dpviz.families.zeroth_order import presets, texts
from dpviz.privacy.budgets import PureDP
from dpviz.problems.values.black_box import CappedRegression, ReluNetwork
from dpviz.ui.explain import NOT_GAUSSIAN
from dpviz.ui.zeroth_order import page
from tests.confirming import confirmed
from tests.pages.reading import (
    Load,
    chart,
    charts,
    choose,
    lines,
    link,
    metrics,
    pictures,
    run,
    said,
    table,
    text,
    y_title,
)
from tests.pages.test_mirror_uploads import people

PAGE = "zeroth_order"
FEW = {"zeroth_iterations": "32", "zeroth_replicates": "2"}
SMALL = FEW | {"zeroth_phase_rows": "3000", "zeroth_phase_dimension": "3"}
DRAWN = 6  # figures of the plan


# ------------------------------------------------------------------------------------------------------------- the plan


def advice(app: AppTest) -> AppTest:
    app.session_state["zeroth_tabs"] = "Advice"
    return app.run()


def test_the_plan_and_the_advice_are_there_before_anything_runs(load: Load) -> None:
    app = load(PAGE, zeroth_references="true")
    assert app.title[0].value == texts.TITLE and not app.error and pictures(app) == DRAWN
    assert app.selectbox(key="zeroth_preset").value == presets.PRESETS[0].name
    assert presets.PRESETS[0].look_for in text(app) and "zeroth_job" not in app.session_state
    assert lines(app, "Noise on each coordinate") == set(presets.DEFAULT_METHODS)
    assert lines(app, "Noise of a step against the number of parameters") == set(presets.DEFAULT_METHODS)
    assert "Advised at your size: “Improved, batches follow the moves”" in text(app)
    assert "a tree has no less noise than sums of independent noise" in said(app)
    why = text(advice(app))
    assert "bound and runs disagree" in why and "The smallest bound, 0." in why
    assert metrics(app)["Noise of a step"] == "0.368"  # of the published method: 0.359, mean, not root mean square


def test_the_advice_is_taken_with_a_button(load: Load) -> None:
    app = load(PAGE)
    (told,) = re.findall(r"“(.*)”, T = (\d+), K = (\d+)", text(app))
    app.button(key="zeroth_advised").click().run()
    assert not app.exception and not app.error
    assert set(lines(app, "Noise on each coordinate")) == {presets.PUBLISHED, presets.IMPROVED}
    length, steps = (app.number_input(key=f"zeroth_{name}").value for name in ("epoch_length", "iterations"))
    assert (
        told == ("Improved, batches follow the moves", f"{length:.0f}", f"{steps // length:.0f}")
        and steps % length == 0
    )
    assert app.toggle(key="zeroth_follow_moves").value
    again = load(PAGE, **parse_qs(link(app).partition("?")[2]))
    assert link(again) == link(app) and lines(again, "Noise") == lines(app, "Noise")


# -------------------------------------------------------------------------------------------------------------- the run


def test_a_run_says_who_ends_lowest_how_stationary_and_what_was_clipped(load: Load) -> None:
    app = run(load(PAGE, **SMALL))
    (told,) = [part.value for part in app.main.markdown if re.match(r"Down from|\*\*No lower", part.value)]
    assert len(re.split(r"\. ", told)) == 1, "one sentence beside the number"
    assert "Down from" in text(app) and "**Clipped**: no difference of values" in text(app)
    alts = " ".join(charts(app))
    assert "Is the smoothed gradient small?" in alts and "Goldstein stationarity" in alts
    assert "Is it a stationary place?" in alts and "sampling error of that length" in text(app)
    for axis in ("rows_used", "evaluations"):
        choose(app, "axis", axis)
    assert "against function evaluations" in " ".join(charts(app))


def test_noise_bound_and_runs_are_three_figures(load: Load) -> None:
    app = load(PAGE)
    app.session_state["zeroth_tabs"] = "Running sums"
    app.run()
    ratio, term, ends = (
        chart(app, alt)
        for alt in ("Noise of running sums over", "Private term of the bound", "Objective at the end of runs")
    )
    titles = [y_title(figure) for figure in (ratio, term, ends)]
    assert [title.split()[0] for title in titles] == ["Noise,", "Bound's", "Objective"]
    assert "T = 5,377" in text(app) and "no statement about noise" in text(app)
    assert "yours, a step, T = 16" in str(ratio) and "yours, T = 16" in str(term)
    app.number_input(key="zeroth_travel").set_value(2.0).run()
    moves = chart(app, "Noise of running sums over")
    assert "yours, a step, T = 16: 0.718" in str(ratio) and "yours, a step, T = 16: 1.44" in str(moves)
    app.number_input(key="zeroth_epoch_length").set_value(12).run()
    variances = table(app, "Mean variance").set_index("Sums").loc["Binary tree, published noise"]
    bits = [t.bit_count() for t in range(1, 13)]
    assert variances.tolist() == pytest.approx([5 * np.mean(bits), 5 * max(bits)]), "⌈log₂ 12⌉ + 1 levels"
    choose(app, "data", "linear")
    assert texts.MEASURED_ELSEWHERE in text(app)
    choose(app, "data", "votes")
    choose(app, "votes_answer", "rating")
    assert texts.UNMEASURED in text(app) and not app.exception
    app.pills[0].set_value(["Naive"]).run()
    assert not app.exception and "yours, " not in str(charts(app))


@pytest.mark.parametrize(("gap", "guessed"), [("", False), ("0.3", True), ("5", False)])
def test_bounds_that_rest_on_a_guess_are_said_to(load: Load, gap: str, guessed: bool) -> None:
    """A gap below what holds for every data set, 1.17 here: beside the advice, the figure, and in the assumptions."""
    app = load(PAGE, **SMALL, **({"zeroth_gap": gap} if gap else {}))
    assert text(app).count(texts.GUESS) == (2 if guessed else 0)
    assert "Advised at your size: “" in text(app), "what runs came to rests on no guess"
    title = chart(app, "The three parts of each method's bound")["layout"]["xaxis"]["title"]["text"]
    assert title.endswith(" if F* holds") == guessed
    assert (texts.GUESS in text(advice(app))) == guessed
    choose(app, "data", "votes")
    choose(app, "votes_answer", "rating")  # not measured: the advice is what the bound says
    assert f"Smallest bound at your size{', if F* holds' * guessed}: “" in text(app)


def test_pure_epsilon_leaves_the_looks_at_gaussian_noise_empty(load: Load) -> None:
    app = load(PAGE, zeroth_currency=PureDP.name, zeroth_methods="DP-ZO", zeroth_noise="Laplace")
    for tab in ("Running sums", "Rows needed", "Accounting"):
        app.session_state["zeroth_tabs"] = tab
        app.run()
        assert not app.exception
    assert NOT_GAUSSIAN in text(app)
    assert "The noise of all steps is one Gaussian" not in text(app)
    assert "Laplace noise, which DP-ZO offers, is ε-DP" in text(app) and "of one epoch, and in no other" not in text(
        app
    )


def test_too_few_steps_are_told(load: Load) -> None:
    app = load(PAGE, zeroth_iterations="160")
    assert "Too few steps to get there" in said(app) and "1.43 from the start" in said(app)


def test_two_parameters_are_a_cloud_on_the_function_and_on_what_is_smoothed(load: Load) -> None:
    app = run(load(PAGE, zeroth_data="Bent valley (two parameters)", zeroth_valley_rows="2000", **FEW))
    alts = " ".join(charts(app))
    assert "Contours of the objective" in alts and "Contours of the smoothed objective" in alts


def test_clipped_votes_are_told_with_a_warning(load: Load) -> None:
    app = run(load(PAGE, zeroth_data="Up-votes and down-votes", zeroth_votes_rows="3000", **FEW))
    assert "Clipping changes the function" in said(app) and "Values may move faster than L" in said(app)
    assert "No bound is known" in text(app) and "is no promise here" in text(app)
    assert "Advised at your size" in text(app) and "The smallest bound" not in text(advice(app))
    assert "Bounds do not hold here" in text(app) and texts.NO_STATIONARITY in text(app)
    assert "Goldstein" not in " ".join(charts(app)), "the second chart is of something that is defined"


# ---------------------------------------------------------------------------------------------------- files of your own


def test_a_file_runs_by_click_and_hides_what_reads_it(load: Load) -> None:
    few = FEW | {"zeroth_methods": presets.FRESH}
    app = load(PAGE, zeroth_data="Your own file", zeroth_follow="true", zeroth_epoch_length="8", **few)
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    app.button(key="zeroth_upload_fill").click().run()
    assert not app.exception and not app.error and "zeroth_job" not in app.session_state
    app = run(app)
    alts = " ".join(charts(app))
    assert "Norm of the noisy gradient" in alts and "Objective" not in alts and "Clipped" not in text(app)
    model = table(app, "column")
    trace = app.session_state["zeroth_job"].job.trace
    np.testing.assert_allclose(model[presets.FRESH], trace.arm_traces[presets.FRESH].output["x"][0])
    assert "What one run releases" in text(app) and model["column"].tolist()[-1] == "(constant)"
    app.toggle(key="zeroth_diagnostics").set_value(True).run()
    assert not app.exception and "Objective" in " ".join(charts(app)) and "Clipped" in text(app)


def test_what_a_released_model_predicts_is_what_is_said_of_it() -> None:
    """By hand, from declared ranges and the sentence, against the problem's own rows and loss."""
    table = np.random.default_rng(0).uniform([0, 10, -2], [1, 30, 2], (40, 3))
    ranges = {"bounds": ((0.0, 1.0), (10.0, 30.0)), "target_range": (-2.0, 2.0)}
    upload = UploadedTable(identity="e" * 32, n=40, names=("a", "b"), **ranges)
    inputs = np.column_stack([2 * table[:, 0] - 1, (table[:, 1] - 20) / 10, np.ones(40)])
    linear = CappedRegression(data=upload, targets="unit", cap=2.0)
    assert "all divided by 1.73205. The prediction is -2 + 4 × the output" in page.explain_prediction(linear)
    x = np.array([[0.3, -0.2, 0.5]])
    found = linear.build({"e" * 32: table}).evaluate({"x": x}, expensive=False)["objective"]
    errors = (table[:, 2] - (-2 + 4 * inputs @ x[0] / np.sqrt(3))) / 4
    assert found[0] == pytest.approx(np.abs(errors).mean(), rel=1e-9)
    network = ReluNetwork(data=upload, units=3, divisor=1.0)
    said = page.explain_prediction(network)
    assert "shortened to length 1" in said and "over units 1 to 2 less that over the others, divided by √3" in said
    assert "The prediction is 0 + 2 × the output" in said
    x = np.random.default_rng(1).standard_normal((1, 9))
    rows = inputs / np.maximum(1, np.linalg.norm(inputs, axis=1, keepdims=True))
    units = np.maximum(rows @ x.reshape(3, 3).T, 0)
    errors = (table[:, 2] - 2 * (units[:, 0] + units[:, 1] - units[:, 2]) / np.sqrt(3)) / 2
    found = network.build({"e" * 32: table}).evaluate({"x": x}, expensive=False)["objective"]
    assert found[0] == pytest.approx(np.abs(errors).mean(), rel=1e-9)
