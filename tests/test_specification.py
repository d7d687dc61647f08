"""Specifications: ranges hold wherever values come from, texts are canonical, kinds are found and nothing else is."""

import importlib
import inspect
import json
import math
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dpviz import families, specification
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import HeavyBall, Nesterov
from dpviz.numbers import short
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import Control, Specification, choice, kind_named, number, registered, switch
from tests.refusals import is_refusal

families.load_all()
KINDS = registered(Specification)
# What the kinds without defaults need.
REQUIRED = {
    "experiments.experiment.arm": {"label": "A", "algorithm": {"kind": "families.accelerated.nesterov"}},
    "experiments.experiment.experiment": {
        "problem": {"kind": "problems.quadratic.bench"},
        "arms": [{"label": "A", "algorithm": {"kind": "families.accelerated.nesterov"}}],
    },
    "experiments.auditing.auditing": {"family": "accelerated", "case": "gradient_descent"},
    **{
        f"experiments.budget_lessons.{name}": {
            "means": {"kind": "privacy.noisy_means.noisy_means"},
            "budget": {"kind": "privacy.budgets.pure"},
        }
        for name in ("released", "neighbours", "survey")
    },
    "privacy.analyses.analyses": {"statistics": [{"kind": "privacy.analyses.count"}]},
    "experiments.sweep.axis": {"fields": ["budget.epsilon"], "values": [1.0, 2.0]},
    "experiments.sweep.sweep": {
        "experiment": {
            "problem": {"kind": "problems.quadratic.bench"},
            "arms": [{"label": "A", "algorithm": {"kind": "families.accelerated.nesterov"}}],
        },
        "fields": ["budget.epsilon"],
        "values": [1.0, 2.0],
        "metric": "objective_gap",
    },
    "datasets.upload.table": {"identity": "a" * 32, "n": 30, "bounds": [[0, 1]], "names": ["a"]},
    "datasets.users.upload": {"identity": "a" * 32, "n": 30, "bounds": [[0, 1]], "names": ["a"], "users": 20},
    "datasets.covertype.upload": {"identity": "a" * 32, "n": 30},
    "datasets.groups.upload": dict(identity="a" * 32, n=30, bounds=[[0, 1]], names=["a"], groups=["x"], shares=[1.0]),
    "datasets.categories.upload": {"identity": "a" * 32, "n": 30, "columns": [["a", ["x", "other"]]]},
}
CONTROLS = [(cls, control) for cls in KINDS for control in cls.controls()]
NUMBERS = [(cls, control) for cls, control in CONTROLS if control.low is not None]
SEVERAL = [(cls, control) for cls, control in CONTROLS if control.count]


def made(cls: type[Specification], **values: object) -> Specification:
    return cls.model_validate(REQUIRED.get(cls.kind, {}) | values)


def beyond(control: Control, low: float, high: float) -> tuple[float, float]:
    """The next number below `low`, and above `high`."""
    if control.type is int:
        return int(low) - 1, int(high) + 1
    return float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))


def complaints(cls: type[Specification], name: str, value: object) -> list[str]:
    """What validation says about this one field; what it says about the object as a whole does not count."""
    try:
        cls(**(REQUIRED.get(cls.kind, {}) | {name: value}))
    except UserError as error:
        assert isinstance(error.__context__, ValidationError)
        return [item["msg"] for item in error.__context__.errors() if item["loc"][-1:] == (name,)]
    return []


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, type[Specification]]]:
    """A registry that forgets what a test registers."""
    copy = dict(specification._kinds)
    monkeypatch.setattr(specification, "_kinds", copy)
    yield copy


# ------------------------------------------------------------------------------------------- every kind in the registry


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.kind)
def test_the_text_of_every_kind_is_canonical_and_leads_back_to_it(cls: type[Specification]) -> None:
    original = made(cls)
    text = original.to_json()
    assert json.loads(text)["kind"] == cls.kind
    assert set(json.loads(text)) == {"kind", *cls.model_fields}
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for entry in (cls, Specification):
        again = entry.from_json(text)
        assert type(again) is cls and again == original
        assert again.to_json() == text and again.content_hash() == original.content_hash()
    shuffled = json.dumps(dict(reversed(json.loads(text).items())), indent=3)
    assert Specification.from_json(shuffled).content_hash() == original.content_hash()


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.kind)
def test_every_kind_is_frozen_and_refuses_unknown_fields(cls: type[Specification]) -> None:
    instance = made(cls)
    for name in cls.model_fields:
        with pytest.raises(UserError, match="replaced"):
            setattr(instance, name, getattr(instance, name))
    with pytest.raises(UserError):
        made(cls, no_such_field=1)
    with pytest.raises(UserError):
        instance.replaced(no_such_field=1)


@pytest.mark.parametrize(("cls", "control"), NUMBERS, ids=lambda item: getattr(item, "kind", None) or item.name)
def test_the_library_takes_all_within_the_limits_and_a_page_all_within_the_range_and_nothing_else(
    cls: type[Specification], control: Control
) -> None:
    assert control.low is not None and control.high is not None and control.low < control.high
    lowest, highest = control.limits
    assert lowest <= control.low and control.high <= highest
    assert isinstance(control.high, control.type) and isinstance(control.low, control.type)
    if control.scale == "log":
        assert lowest > 0
    if control.default is not None:
        assert control.low <= control.default <= control.high
    for value in (control.low, control.high, lowest, highest):
        assert complaints(cls, control.name, control.type(value)) == []
    outside: list[Any] = [*beyond(control, lowest, highest), math.nan, math.inf, -math.inf, "many", [1]]
    for value in outside:
        assert complaints(cls, control.name, value), f"{value} was accepted"
    for value in (control.low, control.high, *beyond(control, control.low, control.high)):
        with suppress(UserError):  # of a value that needs another one
            owner = made(cls, **{control.name: value})
            is_offered = control.low <= value <= control.high
            with nullcontext() if is_offered else pytest.raises(UserError, match=re.escape(control.label)):
                owner.check_ranges()
    if not control.optional:
        assert complaints(cls, control.name, None)


@pytest.mark.parametrize(("cls", "control"), SEVERAL, ids=lambda item: getattr(item, "kind", None) or item.name)
def test_several_numbers_are_as_many_as_declared_and_each_in_its_range(
    cls: type[Specification], control: Control
) -> None:
    low, high = control.each
    assert low < high and len(control.default) == control.count
    for values in ((low,) * control.count, [high] * control.count):
        assert complaints(cls, control.name, values) == []
    others = (low,) * (control.count - 1)
    beyond = [math.nan, math.inf, np.nextafter(low, -np.inf), np.nextafter(high, np.inf), "many", None]
    for values in ((*others, value) for value in beyond):  # type: ignore[assignment]
        assert complaints(cls, control.name, values), f"{values} was accepted"
    for values in ((), others, (*others, low, low), "0,0", 1.0, None):  # type: ignore[assignment]
        assert complaints(cls, control.name, values), f"{values} was accepted"
    instance = made(cls, **{control.name: (0.5 * high,) * control.count})
    text = ",".join([repr(0.5 * high)] * control.count)
    assert instance.query("a") == {f"a_{control.name}": text} and cls.from_json(instance.to_json()) == instance


@pytest.mark.parametrize(("cls", "control"), CONTROLS, ids=lambda item: getattr(item, "kind", None) or item.name)
def test_every_control_speaks_and_its_options_are_what_validation_accepts(
    cls: type[Specification], control: Control
) -> None:
    assert control.label and control.title.startswith(control.label)
    assert len(control.help) > 10, f"{cls.kind}.{control.name} has no help text"
    if control.options is not None:
        assert control.default in control.options
        for value in control.options:
            assert complaints(cls, control.name, value) == []
        for value in ("no such option", "", 0, None):  # type: ignore[assignment]
            assert complaints(cls, control.name, value), f"{value!r} was accepted"


@pytest.mark.parametrize("cls", [cls for cls in KINDS if cls.controls()], ids=lambda cls: cls.kind)
def test_a_share_link_holds_what_differs_from_the_defaults_and_restores_it(cls: type[Specification]) -> None:
    assert made(cls).query("a") == {}
    for control in cls.controls():
        others = [*(control.options or ()), control.high, control.low, not control.default]  # the last: of a switch
        value = next(value for value in others if value not in (control.default, None))
        try:
            instance = made(cls, **{control.name: value})
        except UserError:
            continue  # only together with another field
        query = instance.query("a")
        assert set(query) == {f"a_{control.name}"} and all(isinstance(text, str) for text in query.values())
        read = {name.removeprefix("a_"): text for name, text in query.items()}
        assert made(cls, **read) == instance


# ---------------------------------------------------------------------------------------------------- text and identity


def test_equal_settings_have_one_text_however_they_were_written() -> None:
    assert (
        PureDP(epsilon=2).to_json() == PureDP(epsilon=2.0).to_json() == '{"epsilon":2.0,"kind":"privacy.budgets.pure"}'
    )
    assert PureDP.model_validate({"epsilon": "2"}).content_hash() == PureDP(epsilon=2).content_hash()
    assert PureDP(epsilon=2).content_hash() != PureDP(epsilon=np.nextafter(2.0, 3.0)).content_hash()
    assert PureDP(epsilon=2).content_hash() != ApproximateDP(epsilon=2).content_hash()
    assert Quadratic(start=-0.0).to_json() == Quadratic(start=0.0).to_json()
    tiny = PureDP(epsilon=0.1 + 0.2)
    assert PureDP.from_json(tiny.to_json()).epsilon == 0.1 + 0.2


def test_a_change_deep_inside_changes_the_hash() -> None:
    base = Experiment.model_validate(REQUIRED["experiments.experiment.experiment"])
    arm = base.arms[0]
    variants = [
        base.replaced(seed=1),
        base.replaced(arms=(arm.replaced(algorithm=arm.algorithm.replaced(iterations=7)),)),
        base.replaced(arms=(arm.replaced(budget=base.budget),)),
        base.replaced(problem=Quadratic(start=2.0)),
        base.replaced(arms=(arm, arm.replaced(label="B"))),
    ]
    assert len({item.content_hash() for item in (base, *variants)}) == len(variants) + 1


@pytest.mark.slow
def test_a_fresh_process_needs_only_the_text_and_imports_only_what_it_names() -> None:
    text = HeavyBall(momentum=0.25).to_json()
    program = (
        "import sys\n"
        "from dpviz.specification import Specification\n"
        "assert not any(name.startswith('dpviz.families') for name in sys.modules)\n"
        "print(Specification.from_json(sys.argv[1]).content_hash())\n"
        "assert not {'streamlit', 'plotly'} & set(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == HeavyBall(momentum=0.25).content_hash()


def test_replaced_validates_and_leaves_the_original_alone() -> None:
    original = Nesterov(iterations=10)
    assert original.replaced(iterations=20) == Nesterov(iterations=20)
    assert original.iterations == 10
    for bad in ({"iterations": 0}, {"noise": "cauchy"}, {"relative_step": math.nan}):
        with pytest.raises(UserError):
            original.replaced(**bad)


# ------------------------------------------------------------------------------------------------------- kinds, hostile


@pytest.mark.parametrize(
    "kind",
    [
        "", " ", ".", "..", "privacy", "privacy.", ".budgets.pure", "privacy..pure", "privacy.budgets.Pure",
        "privacy.budgets.__class__", "os.system", "antigravity.this.that", "families.nobody.a",
        "../privacy.budgets.pure", "privacy.budgets.pure\n",
        "privacy/budgets", "privacy.budgets.nope", "no.such.place", "privacy.budgets.pure.epsilon",
        None, 5, True, [], {}, ["a.b"],
    ],
)  # fmt: skip
def test_a_kind_that_is_none_is_refused_with_a_sentence_and_imports_nothing(kind: object) -> None:
    before = set(sys.modules)
    with pytest.raises(UserError):
        Budget.from_json(json.dumps({"kind": kind, "epsilon": 1.0}))
    assert set(sys.modules) == before


def test_the_first_words_of_every_kind_say_which_module_registers_it() -> None:
    for name in specification._REGISTERED_BY:
        importlib.import_module(f"dpviz.{name}")
    house = str(Path(specification.__file__).parent)
    ours = [cls for cls in registered(Specification) if inspect.getfile(cls).startswith(house)]
    assert len(ours) > 90
    for cls in ours:
        module = specification._registering_module(".".join(cls.kind.split(".")[:2]))
        assert f"{cls.__module__}.".startswith(f"{module}."), cls.kind


def test_a_kind_of_another_family_tree_is_refused() -> None:
    with pytest.raises(UserError, match="not of Budget"):
        Budget.from_json('{"kind":"problems.quadratic.bench"}')
    with pytest.raises(UserError, match="not of Algorithm"):
        Arm.model_validate({"label": "A", "algorithm": {"kind": "privacy.budgets.pure"}})


@pytest.mark.parametrize("base", [Budget, ProblemSpecification, Specification])
def test_a_base_class_is_no_value(base: type[Specification]) -> None:
    """An object without a kind, where several are possible, must be refused: it could be neither run nor read back."""
    with pytest.raises(UserError):
        base.from_json("{}")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "5", '"text"', "[]", "[" * 100_000, '{"epsilon": ' + "9" * 5_000 + "}", '{"epsilon": NaN}',
        '{"epsilon": Infinity}', '{"epsilon": 1e999}', '{"epsilon": null}', '{"epsilon": {}}', '{"epsilon": [1]}',
        '{"epsilon": "\\ud800"}', '{"\\ud800": 1}', '{"epsilon": 1, "extra": 2}', '{"epsilon": 1, "epsilon": 2}',
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_text_that_is_no_budget_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UserError):
        PureDP.from_json(text)


def test_nested_settings_that_are_incomplete_are_refused_with_a_sentence() -> None:
    for text in ('{"data":{}}', '{"data":null}', '{"data":{"kind":"problems.quadratic.bench"}}', '{"data":5}'):
        with pytest.raises(UserError):
            LogisticRegression.from_json(text)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(
    ["privacy.budgets.pure", "families.accelerated.nesterov", "problems.quadratic.bench", "datasets.upload.table"]
)  # fmt: skip
names = st.sampled_from(["kind", "epsilon", "problem", "arms", "label", "algorithm", "data", "budget", "seed", "n"])
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True)
@given(trees)
def test_any_json_either_becomes_a_specification_or_is_refused_with_a_sentence(tree: object) -> None:
    for entry in (Experiment, Budget, ProblemSpecification, Specification):
        try:
            found = entry.from_json(json.dumps(tree))
        except UserError as error:
            assert is_refusal(error, "Please check your settings")
        else:
            assert entry.from_json(found.to_json()) == found


# ------------------------------------------------------------------------------------------------------------ sentences


def test_a_value_out_of_range_is_explained_with_label_range_and_value() -> None:
    with pytest.raises(UserError) as caught:
        Nesterov.from_json('{"iterations": 20000000, "noise": "cauchy"}')
    assert "Steps must be a whole number between 1 and 10,000,000 (got 20000000)." in str(caught.value)
    assert "Noise must be one of laplace, gaussian (got 'cauchy')." in str(caught.value)
    with pytest.raises(UserError, match=r"500\.$"):
        PureDP(epsilon=10**5000)  # longer than Python writes a number


@pytest.mark.parametrize(
    ("base", "value", "sentence"),
    [
        # Fields of one name have different ranges in different kinds; the sentence must state the right one.
        (ProblemSpecification, {"kind": "problems.quadratic.bench", "dimension": 5_000_000}, "between 1 and 1,000,000"),
        (ProblemSpecification, {"kind": "problems.quadratic.bench", "clip": 1e12}, "between 10⁻⁹ and 1,000,000,000"),
        (
            LogisticRegression,
            {"data": {"kind": "datasets.synthetic.paper_logistic", "rows": 200_000}},
            "between 1 and 100,000",
        ),
        (LogisticRegression, {"data": {"kind": "datasets.bundled.table", "table": "iris"}}, "one of breast_cancer"),
    ],
)
def test_the_range_in_a_sentence_is_that_of_the_kind_in_question(
    base: type[Specification], value: dict, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        base.from_json(json.dumps(value))
    assert sentence in str(caught.value)


def test_a_rule_across_fields_is_explained_in_its_own_words() -> None:
    with pytest.raises(UserError, match="below μ"):
        LogisticRegression.from_json('{"smoothness": 0.001, "smoothness_source": "declared"}')


# ------------------------------------------------------------------------------------------------------------- registry


def test_a_class_registers_under_its_kind_and_a_second_one_cannot_take_it(kinds: dict) -> None:
    class Sample(Specification):
        kind: ClassVar[str] = "tests.sample.first"
        size: float | None = number(None, 1.0, 2.0, label="Size", symbol="s", unit="m", help="How large it is.")
        way: Literal["a", "b"] = choice("a", {"a": "First", "b": "Second"}, label="Way", help="Which way to go.")
        loud: bool = switch(False, label="Loud", help="Whether to shout.")

    assert kind_named("tests.sample.first") is Sample and Sample in registered(Specification)
    size, way, loud = Sample.controls()
    assert (size.title, size.type, size.optional, *size.limits) == ("Size s [m]", float, True, 1.0, 2.0)
    assert (way.type, way.options, way.optional) == (str, {"a": "First", "b": "Second"}, False)
    assert (loud.type, loud.default, loud.low) == (bool, False, None)
    assert Sample(size=1.5, loud=True).query("p") == {"p_size": "1.5", "p_loud": "True"}
    with pytest.raises(ValueError, match="two classes"):

        class Thief(Specification):
            kind: ClassVar[str] = "tests.sample.first"

    assert kind_named("tests.sample.first") is Sample


@pytest.mark.parametrize("kind", ["single", "Upper.case", "a..b", "a.b-c", "a.b ", "1a.b", "a.__b"])
def test_a_kind_must_look_like_one(kinds: dict, kind: str) -> None:
    before = dict(kinds)
    with pytest.raises(ValueError, match="not a name"):
        type("Sample", (Specification,), {"kind": kind, "__annotations__": {"kind": ClassVar[str]}})
    assert kinds == before


def test_a_class_without_a_kind_of_its_own_does_not_register(kinds: dict) -> None:
    before = dict(kinds)

    class Child(PureDP):
        pass

    assert kinds == before


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.kind)
def test_the_docstring_lists_every_parameter_with_its_range_default_and_help(cls: type[Specification]) -> None:
    text = cls.__doc__ or ""
    own, _, parameters = text.partition("\nParameters\n----------\n")
    shown = " ".join(parameters.split())
    assert own.strip() and bool(parameters) == bool(cls.controls()) and "Parameters\n" not in parameters
    for control in cls.controls():
        assert shown.count(f"{control.name} : ") == 1 and f"{control.title}. {' '.join(control.help.split())}" in shown
        assert f"default {control.default!r}" in shown
        assert control.low is None or f"[{short(control.limits[0], 6)}, {short(control.limits[1], 6)}]" in shown
        assert all(repr(option) in shown for option in control.options or ())
        assert not control.optional or "or None (by theory)" in shown


def test_help_shows_parameters_that_the_base_declares() -> None:
    line = "iterations : int in [1, 10,000,000], default 100. Steps T. Noisy gradients released."
    assert pydoc.plain(pydoc.render_doc(Nesterov)).count(line) == 1
    assert "iterations : " not in (Nesterov.__mro__[1].__doc__ or "")
