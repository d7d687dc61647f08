"""The lessons' page: predict, see, why; addresses; what is remembered; and the page that a lesson leads to."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.execution.runner import Runner
from dpviz.experiments.experiment import Experiment
from dpviz.lessons.lesson import Side
from dpviz.ui import families, visitors
from dpviz.ui.experiment.run import Run
from dpviz.ui.learn import page as learn_page
from dpviz.ui.learn.page import NO_LESSON
from tests.pages.reading import Load, charts, said, words
from tests.ui.uploaded_run import uploaded_run


def run(app: AppTest) -> AppTest:
    """Wait for the lesson's runs."""
    (slug,) = np.atleast_1d(app.query_params["lesson"])
    for name in ("before", "after"):
        key = f"learn_{slug}_{name}"
        if key in app.session_state:
            app.session_state[key].job.wait(300.0)
    app.run()
    assert not app.exception and not app.error
    return app


def turn(app: AppTest, key: str = "learn_next") -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception
    return run(app) if "lesson" in app.query_params else app


def verdict(app: AppTest) -> Any:
    (found,) = [*app.info, *app.success]
    return found


def test_a_lesson_is_predicted_seen_and_explained(load: Load) -> None:
    app = load("learn")
    assert app.title[0].value == "Lessons" and f"0 of {len(learn_page.all_lessons())} answered" in words(app)
    turn(app, "learn_open_steps")
    assert app.title[0].value == "How many steps can you afford?"
    assert "With 20 steps," in words(app) and len(charts(app)) == 1
    turn(app)
    assert app.button(key="learn_next").disabled and "Steps T: 20 → 200" in words(app)
    app.radio[0].set_value(0).run()
    turn(app)
    assert verdict(app).type == "info"  # blue: a wrong prediction is no error
    assert "You said “Closer to the best model”. It was “More than 15 times worse”" in verdict(app).value
    (spec,) = charts(app).values()
    names = {trace["name"] for trace in spec["data"] if trace.get("name")}
    assert names == {"T = 20", "T = 200"}
    turn(app)
    assert "its noise is 10 times larger" in words(app)
    turn(app, "learn_list")
    assert f"1 of {len(learn_page.all_lessons())} answered" in words(app)
    turn(app, "learn_begin")  # the first of those that are not answered
    (slug,) = np.atleast_1d(app.query_params["lesson"])
    assert slug == learn_page.all_lessons()[0].slug != "steps"
    turn(app, "learn_list")
    app.switch_page("pages/home.py").run()
    app.switch_page("pages/learn.py").run()
    assert f"1 of {len(learn_page.all_lessons())} answered" in words(app)


def test_a_right_prediction_is_told_so(load: Load) -> None:
    app = run(load("learn", lesson="steps", step="2"))
    app.radio[0].set_value(3).run()
    turn(app)
    assert verdict(app).type == "success" and "and so it was" in verdict(app).value
    turn(app, "learn_back")
    assert app.radio[0].disabled  # who has seen the outcome predicts no more


@pytest.mark.parametrize(
    "address",
    [
        {"lesson": "nothing"},
        {"lesson": "<script>alert(1)</script>"},
        {"lesson": "steps/../../x", "step": "2"},
        {"lesson": "9" * 5000},
        {"lesson": "nothing", "learn_tabs": "<b>nothing</b>"},
    ],
)
def test_a_link_to_no_lesson_shows_the_list(load: Load, address: dict[str, str]) -> None:
    app = load("learn", **address)
    assert app.title[0].value == "Lessons" and NO_LESSON in words(app)


def test_a_link_to_the_outcome_shows_it_without_a_prediction(load: Load) -> None:
    app = run(load("learn", lesson="steps", step="3"))
    assert "You made no prediction. It was “More than 15 times worse”" in verdict(app).value


def test_a_run_that_fails_is_told_and_can_be_tried_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Experiment, *_: Any, **__: Any) -> Any:
        raise RuntimeError("broken on purpose")

    shrink = learn_page.named("shrink")
    assert shrink is not None and isinstance(shrink.before, Experiment) and isinstance(shrink.after, Experiment)
    # Runs that nobody has kept.
    own = replace(shrink, slug="own", before=shrink.before.replaced(seed=77), after=shrink.after.replaced(seed=77))
    monkeypatch.setattr(learn_page, "all_lessons", lambda: (own,))
    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "stream", broken)
        app = load("learn", lesson="own")
        app.session_state["learn_own_before"].job.wait(300.0)
        app.run()
        assert not app.exception and "did not finish" in said(app)
    app.button(key="learn_again").click().run()
    assert len(charts(run(app))) == 2  # loss and noise


def test_a_page_waits_only_for_the_run_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = uploaded_run()
    waiting = replace(ended, job=Runner(slots=0).submit(ended.experiment, dict(ended.tables)))
    runs, awaited = {"before": ended, "after": waiting}, list[Run]()
    monkeypatch.setattr(learn_page, "_run", lambda _, which: runs[which])
    monkeypatch.setattr(learn_page, "rerun_when_ended", lambda _, under_way: awaited.extend(under_way))
    assert not learn_page.ready(learn_page.all_lessons()[0], learn_page.BOTH) and awaited == [waiting]


def test_texts_are_there_before_the_runs_are() -> None:
    for lesson in learn_page.all_lessons():
        sides = [
            Side(settings, settings.plans() if isinstance(settings, Experiment) else {})
            for settings in (lesson.before, lesson.after)
        ]
        for template in (lesson.setting, lesson.question, lesson.why, lesson.try_it):
            assert "{" not in lesson.fill_in(template, *sides, has_run=False)


@pytest.mark.parametrize("lesson", learn_page.all_lessons(), ids=lambda lesson: lesson.slug)
def test_the_page_that_a_lesson_leads_to_can_express_its_settings(lesson: Any) -> None:
    if isinstance(lesson.after, Experiment):
        page = families.named(lesson.page).page()
        assert page.settings(lesson.after)


def test_what_was_drawn_is_shown_with_the_truth(load: Load) -> None:
    app = run(load("learn", lesson="shrink", step="2"))
    assert not app.radio and app.button(key="learn_next").disabled
    app.session_state[visitors.KEY].notes |= {"learn_shrink_heights": (0.5,) * 6, "learn_shrink_answer": 0}
    app.run()
    assert "You predict: “Worse”." in words(app) and not app.button(key="learn_next").disabled
    (noise,) = charts(app).values()  # of both, which plans know before the answer is there
    turn(app)
    lines = [{trace["name"] for trace in spec["data"] if trace.get("name")} for spec in (noise, *charts(app).values())]
    both = {"Uniform", "Optimal (bound)"}
    assert lines == [both, both | {"Your curve"}, both]
    app.button(key="learn_back").click().run()  # who has seen the outcome draws no more
    drawn, _ = ({trace["name"] for trace in spec["data"] if trace.get("name")} for spec in charts(app).values())
    assert drawn == {"Uniform", "Your curve"} and "You predict: “Worse”." in words(app)


def test_try_it_yourself_opens_the_page_with_the_lessons_settings(load: Load) -> None:
    app = run(load("learn", lesson="shrink", step="4", accel_follow="false"))
    app.button(key="learn_try").click().run()
    assert not app.exception and app.title[0].value == "Accelerated gradient"
    lesson = learn_page.named("shrink")
    assert lesson is not None and isinstance(lesson.after, Experiment)
    # On a busy machine the first four repeats may be all that has run.
    ran = app.session_state["accel_job"].job.experiment.replaced(replicates=lesson.after.replicates)
    assert json.loads(ran.to_json()) == json.loads(lesson.after.to_json())
    assert "accel_schedule" in app.query_params
    assert lesson.before in [pinned.pin.experiment for pinned in app.session_state["accel_pins"]]
    (back,) = (one for one in app.get("page_link") if "Back to the lesson" in one.proto.label)
    assert "lesson=shrink" in back.proto.query_string


def test_a_lesson_on_guarantees_opens_the_planner_with_its_settings(load: Load) -> None:
    app = run(load("learn", lesson="currencies", step="4"))
    app.button(key="learn_try").click().run()
    assert not app.exception and app.title[0].value == "Budget planner"
    assert [app.number_input(key=f"planner_{name}").value for name in ("iterations", "epsilon", "delta")] == [
        100,
        1,
        1e-6,
    ]
    chosen = {widget.key: widget.value for widget in [*app.selectbox, *app.segmented_control]}
    found = [chosen[f"planner_{name}"] for name in ("noise", "currency", "sampling", "about", "section")]
    assert found == ["gaussian", "approximate", "all", "steps", "Solve for"]
