"""The audit page: it attacks by itself, says what was found, and lets a visitor guess before seeing it."""

from collections.abc import Callable
from html import unescape
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz import families
from dpviz.audits.audit import Broken
from dpviz.execution.auditing import Auditing
from dpviz.families.accelerated.audits import ONE_RUN
from dpviz.lessons.classroom import ROOMS
from dpviz.numbers import short, short_down
from dpviz.plots.planner_figures import RATES
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.verification.implementation import KINDS
from dpviz.ui import visitors
from dpviz.ui.audit import results, texts
from dpviz.ui.families import FAMILIES
from dpviz.ui.learn import classroom
from tests.pages.reading import Load, array, chart, charts, choose, curve, link, metrics, number, said, text, words

ROC, BOUND = "True against false", "What is proven"
RUNS = "audit_accelerated_gradient_descent_runs"
SOUND = {"audit_family": "Accelerated gradient"}


def attacked(load: Load, **settings: str) -> AppTest:
    """The page when the audit that starts by itself has ended."""
    return ended(load("audit", **{RUNS: "3000"} | SOUND | settings))


def ended(app: AppTest) -> AppTest:
    app.session_state["audit_job"].job.wait(300.0)
    app.run()
    assert not app.exception and not app.session_state["audit_job"].job.active
    return app


def test_at_first_sight_a_mistake_is_caught(load: Load) -> None:
    (verdict,) = ended(load("audit")).error
    assert verdict.proto.title == "VIOLATION"


def test_a_sound_method_is_attacked_and_its_claim_holds(load: Load) -> None:
    app = attacked(load)
    (verdict,) = app.success
    assert verdict.proto.title == "No violation found" and "it does not make the claim true" in verdict.value
    shown = metrics(app)
    assert shown["Claimed ε"] == "1"
    auditing = Auditing(family="accelerated", case="gradient_descent", budget=PureDP(epsilon=1.0), runs=3000)
    direct = auditing.audit.run()
    assert shown["Proven ε"].startswith("≥") and number(shown["Proven ε"].removeprefix("≥")) == pytest.approx(
        direct.bound, rel=0.01
    )
    assert f"This attack proves ε ≥ {shown['Proven ε'].removeprefix('≥ ')} of the claimed 1, with 95 %" in verdict.value
    assert f"as declared in all {len(KINDS)} kinds of tests" in words(app)
    assert "They do not see what a method reads past its mechanisms" in words(app)
    assert words(app).count("| as declared |") == len(KINDS) and "not as declared |" not in words(app)
    assert "Done: 3,000 runs on each data set" in words(app)
    assert [button.label for button in app.get("download_button")].count("Figures (HTML)") == 1
    x, y = curve(app, ROC, "most that the claim allows")
    np.testing.assert_allclose(y, 1 - auditing.budget.tradeoff(x), atol=1e-3)
    assert len(x) == len(RATES) == len(curve(app, ROC, "this attack")[0])
    _, bounds = curve(app, BOUND, "proven")
    assert (
        len(bounds) == 10 and bounds.max() == pytest.approx(direct.bound, rel=1.1e-3) and bounds.max() <= direct.bound
    )


def test_the_settings_in_the_file_of_figures_are_those_of_the_run(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, **_: files.update({label: data}))
    app = ended(load("audit", **{RUNS: "200"} | SOUND))
    app.toggle(key="audit_follow").set_value(False).run()
    app.number_input(key=RUNS).set_value(300).run()
    assert '"runs":200,' in unescape(files["Figures (HTML)"]().decode())


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_every_family_has_methods_to_attack(load: Load, family: str) -> None:
    app = load("audit", audit_follow="false")
    choose(app, "family", family)
    assert not app.error
    canary = families.audits()[family][0].canary
    assert canary in words(app)


def test_the_saddle_is_a_canary_of_the_same_method(load: Load) -> None:
    app = load("audit", audit_follow="false", audit_family="Second-order solutions")
    methods = next(box for box in app.selectbox if box.label == "Method")
    assert len(methods.options) == len(set(methods.options)) == 9
    choose(app, "second_order_short_step_canary", "short_step_curvature")
    assert not app.error and "their Hessians are as far apart as any" in words(app)


@pytest.mark.parametrize(
    "mistake", [pytest.param(mistake, id=mistake.name) for mistake in families.broken() if mistake.by == "attack"]
)
def test_every_mistake_is_caught_and_the_page_says_why(load: Load, mistake: Broken) -> None:
    app = load("audit", audit_family="Broken on purpose", audit_mistake=mistake.title)
    app = ended(app)
    (verdict,) = app.error
    assert verdict.proto.title == "VIOLATION" and mistake.why in verdict.value and mistake.mistake in words(app)
    symbol = next(name for name in metrics(app) if name.startswith("Claimed")).removeprefix("Claimed ")
    assert f"proves {symbol} ≥" in verdict.value and "where 1 is claimed, with 95 % confidence" in verdict.value
    assert "Found after" in verdict.value and len(charts(app)) == 3
    assert number(metrics(app)[f"Proven {symbol}"].removeprefix("≥")) > 1


@pytest.mark.parametrize(
    "mistake", [pytest.param(mistake, id=mistake.name) for mistake in families.broken() if mistake.by == "tests"]
)
def test_a_mistake_that_hides_from_the_attack_is_found_beside_it(load: Load, mistake: Broken) -> None:
    app = ended(load("audit", audit_family="Broken on purpose", audit_mistake=mistake.title))
    (verdict,) = app.error
    assert verdict.proto.title == "NOT AS DECLARED" and mistake.why in verdict.value
    (attack,) = (box for box in app.info if box.proto.title == "No violation found")
    assert "are found beside the attack" in attack.value and not app.success and not app.warning
    assert "the tests of the implementation catch it in 99 of 100" in words(app) and "| not as declared |" in words(app)


def test_audits_of_one_run_are_in_the_link(load: Load) -> None:
    app = load("audit", **SOUND | {RUNS: "3000"}, audit_follow="false", audit_seed="7", audit_one_seed="3")
    program: dict[str, Any] = {}
    exec(next(code.value for code in app.code if "Auditing(" in code.value).partition("verdict =")[0], program)
    budget = PureDP(epsilon=1.0)
    shown_audit = Auditing(family="accelerated", case="gradient_descent", budget=budget, runs=3000, seed=7)
    assert program["auditing"] == shown_audit
    found = ONE_RUN.run(PureDP(epsilon=1.0), seed=3)
    shown = metrics(app)
    assert shown["Proven ε by one run"] == f"≥ {short_down(found.bound)}"
    assert shown["Guesses that are right"] == f"{found.correct} of 200" and not app.error
    assert all(part in link(app) for part in ("audit_one_seed=3",))
    app.toggle(key="audit_one_broken").set_value(True).run()
    (refuted,) = app.error
    assert refuted.proto.title == "VIOLATION" and "more than is claimed" in refuted.value
    (held,) = load("audit", audit_follow="false", audit_one_epsilon="3").info
    assert "200 right guesses of 200 would prove ε ≥ 4.19, and nothing proves more." in held.value
    (large,) = load("audit", audit_follow="false", audit_one_epsilon="5").info
    assert "can refute this claim" in large.value and "can refute" not in held.value


def test_without_the_mistake_nothing_is_found_and_with_few_runs_it_is_not_caught(load: Load) -> None:
    broken = {"audit_family": "Broken on purpose"}
    mended = ended(load("audit", **broken, audit_mended="true"))
    assert mended.success and not mended.error and "without the mistake" in words(mended)
    assert "mended=True" in next(code.value for code in mended.code if code.value.startswith("from "))
    few = ended(load("audit", **broken, audit_broken_quieter_runs="200"))
    (verdict,) = few.warning
    assert verdict.proto.title == "Not caught by the attack" and "does not show in so few runs" in verdict.value


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({RUNS: "1e9"}, "Runs on each data set must be between 200 and 100,000."),
        ({"audit_seed": "-1"}, "Seed must be between 0"),
        ({"audit_accelerated_gradient_descent_epsilon": "0"}, "must be between"),
    ],
)
def test_a_number_out_of_range_is_named_and_nothing_runs(load: Load, settings: dict[str, str], sentence: str) -> None:
    app = load("audit", **SOUND | settings)
    assert sentence in said(app) and "audit_job" not in app.session_state
    assert app.button(key="audit_run").disabled


def test_the_visitor_guesses_on_practice_runs_before_anything_is_shown(load: Load) -> None:
    app = attacked(load, audit_guess="true")
    assert not app.success and "Proven ε" not in metrics(app)
    assert [alt.split(",")[0] for alt in charts(app)] == ["How often each score was seen on D and on D'"]
    assert "750 runs on each" in next(iter(charts(app)))
    app.number_input(key="audit_threshold").set_value(0.3).run()
    app.button(key="audit_count").click().run()
    assert not app.exception and app.success and len(charts(app)) == 3
    assert "Your threshold 0.3 proves ε ≥" in words(app) and "Both were fixed before these runs were seen" in words(app)
    assert any("your threshold" in alt for alt in charts(app))
    again = ended(app.button(key="audit_again").click().run())
    assert again.number_input(key="audit_seed").value == 1 and not again.success  # fresh noise, unseen
    assert again.toggle(key="audit_guess").set_value(False).run().success  # a look at them
    again.toggle(key="audit_guess").set_value(True).run()
    again = ended(again.number_input(key=RUNS).set_value(3003).run())  # the same noise in all but the last runs
    again.number_input(key="audit_threshold").set_value(0.2).run()
    again.button(key="audit_count").click().run()
    assert "Your threshold 0.2 would prove ε ≥" in words(again) and "it proves nothing" in words(again)
    loaded_again = attacked(load, audit_guess="true", audit_seed="1")
    loaded_again.session_state[visitors.KEY].notes |= again.session_state[visitors.KEY].notes  # as a reload does
    loaded_again.number_input(key="audit_threshold").set_value(0.2).run()
    loaded_again.button(key="audit_count").click().run()
    assert "it proves nothing" in words(loaded_again)


def test_an_audit_of_earlier_settings_says_so_wherever_it_is(load: Load) -> None:
    app = attacked(load)
    assert texts.EARLIER not in text(app)
    app.toggle(key="audit_follow").set_value(False)
    app.number_input(key="audit_seed").set_value(5).run()
    assert text(app).count(texts.EARLIER) == 2  # the verdict, and the evidence
    app.toggle(key="audit_guess").set_value(True).run()
    assert text(app).count(texts.EARLIER) == 1  # the practice runs


def test_a_class_guesses_before_anything_is_shown(load: Load) -> None:
    app = attacked(load, audit_guess="true")
    room = ROOMS.open()
    app.session_state[visitors.KEY].notes[classroom.KEY] = room.key
    app.run()
    assert room.current is not None
    for seat, share in enumerate((0.2, 0.5, 0.6)):
        room.join(f"phone {seat}")
        room.answer(f"phone {seat}", 1, share)
    app.run()
    assert "3 of 3 phones answered" in words(app) and not app.success and len(charts(app)) == 1
    app.button(key="class_reveal").click().run()
    progress = app.session_state["audit_job"].progress
    edges = results.bins(progress.present[: progress.tuning], progress.absent[: progress.tuning])
    median = (edges[0] + edges[-1]) / 2
    assert not app.exception and f"Your threshold {short(median)} proves" in words(app)
    thresholds = chart(app, "Thresholds of the class")["data"][1]
    assert array(thresholds["x"]) == pytest.approx(edges[0] + np.array((0.2, 0.5, 0.6)) * (edges[-1] - edges[0]))
    assert "best" in room.state("phone 0")["result"]
    room.end()


def test_a_stopped_audit_says_what_it_has_proven(load: Load) -> None:
    long = SOUND | {"audit_method_accelerated": "DP-SGD, random batches", "audit_accelerated_batches_runs": "100000"}
    app = load("audit", **long, audit_follow="false")
    app.button(key="audit_run").click().run()
    app = ended(app.button(key="audit_stop").click().run())
    assert not app.exception and app.session_state["audit_job"].job.state == "stopped"
    titles = [box.proto.title for box in [*app.info, *app.success]]
    assert "Nothing is proven yet" in titles or "No violation found" in titles
