"""Pins as they travel: in an address, in a file, what hostile ones are told; and what differs between experiments."""

import base64
import json
import random
import zlib
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dpviz.compare import pins
from dpviz.compare.pins import MAX_PACKED, MAX_TEXT, Pin, compress, decompress
from dpviz.datasets import UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.changes import differences
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent, Nesterov, presets
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy, PureDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

ARMS = tuple(Arm(label=cls.title, algorithm=cls(iterations=100)) for cls in (GradientDescent, Nesterov))
EXPERIMENT = Experiment(problem=Quadratic(), arms=ARMS, budget=PureDP(epsilon=2.0), replicates=2)
PIN = Pin("Long", EXPERIMENT)
FILE = Pin(
    "Mine",
    EXPERIMENT.replaced(
        problem=LogisticRegression(
            data=UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("income",)), scaling="unit"
        ),
        seed=None,
    ),
)
HOSTILE: list[Any] = [None, "", [], {}, -1, 1e308, 10**30, "nan", "x" * 200, [[]], {"kind": "cli.main.x"}, "<b>"]


def steps(experiment: Experiment, count: int) -> Experiment:
    arms = [arm.replaced(algorithm=arm.algorithm.replaced(iterations=count)) for arm in experiment.arms]
    return experiment.replaced(arms=tuple(arms))


def told(before: Experiment, after: Experiment) -> list[str]:
    return [part.describe() for part in differences(before, after)]


def test_a_change_of_all_methods_is_one_difference_in_the_words_of_its_control() -> None:
    assert told(EXPERIMENT, EXPERIMENT) == []
    assert told(EXPERIMENT, steps(EXPERIMENT, 20)) == ["Steps T: 100 → 20"]
    tight = EXPERIMENT.replaced(budget=PureDP(epsilon=2.0000001))
    assert told(EXPERIMENT, tight) == ["Privacy budget ε: 2 → 2.0000001"]


def test_what_is_of_another_kind_is_named_and_methods_are_compared_by_their_labels() -> None:
    other = Experiment(
        problem=LogisticRegression(), arms=(ARMS[1], ARMS[0].replaced(label="Mine")), budget=ApproximateDP(epsilon=1.0)
    )
    found = {part.label: (part.old, part.new) for part in differences(EXPERIMENT, other)}
    assert found["Methods"] == ("DP-GD", "Mine") and found["Repeats R"] == ("2", "20")
    assert found["Privacy budget"] == (EXPERIMENT.budget.describe(), other.budget.describe())
    assert found["Problem"] == (Quadratic.title, LogisticRegression.title)
    free = EXPERIMENT.replaced(arms=(ARMS[0].replaced(budget=NoPrivacy()), ARMS[1]))
    assert told(EXPERIMENT, free) == [f"Privacy budget: none → {NoPrivacy().describe()}"]


def test_values_that_are_too_long_to_be_written_are_said_to_have_changed() -> None:
    data = FILE.experiment.problem.dataset
    assert data is not None
    names = tuple(f"column {k}" for k in range(9))
    longer = data.replaced(names=names, bounds=((0.0, 1.0),) * 9)
    other = FILE.experiment.replaced(problem=FILE.experiment.problem.replaced(data=longer))
    assert {part.new for part in differences(FILE.experiment, other)} == {"changed"}


@pytest.mark.parametrize("preset", presets.PRESETS[:4], ids=lambda preset: preset.name)
def test_a_pin_comes_through_a_link_and_a_file_as_it_was(preset: Any) -> None:
    pin = Pin("Größe = 3", preset.experiment)
    packed = pin.to_link()
    assert len(packed) < 1000 and set(packed) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert pins.pin_from_link(packed) == pin
    assert pins.from_file(pins.to_file([pin, PIN]).encode()) == (pin, PIN)


def test_a_pin_of_a_file_of_ones_own_neither_leaves_nor_comes() -> None:
    assert not FILE.travels and "income" not in pins.to_file([FILE, PIN])
    assert pins.from_file(pins.to_file([FILE, PIN]).encode()) == (PIN,)
    with pytest.raises(UserError, match="own file"):
        pins.pin_from_link(FILE.to_link())


def raw(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    ("packed", "sentence"),
    [
        ("", "missing or changed"),
        ("!" * 8, "missing or changed"),
        ("\u202eΩ🎈", "missing or changed"),
        (PIN.to_link()[:-7], "missing or changed"),
        (raw(zlib.compress(b"{}") + b"more"), "missing or changed"),
        (raw(zlib.compress(b"\xff\xfe")), "missing or changed"),
        (raw(zlib.compress(b" " * (MAX_TEXT + 1))), "missing or changed"),
        ("A" * (MAX_PACKED + 1), "longer than"),
        (compress("[" * 60_000), "not valid JSON"),
        (compress("9" * 5000), "not valid JSON"),
        (compress("[]"), "a name and an experiment"),
        (compress('{"name":1,"experiment":{}}'), "a name and an experiment"),
        (compress('{"name":"x","experiment":[]}'), "a name and an experiment"),
        (compress('{"name":"x","experiment":{"kind":"ui.experiment.page.x"}}'), "does not exist here"),
        (Pin("x", EXPERIMENT.replaced(replicates=201)).to_link(), "Repeats must be between 1 and 200"),
    ],
    ids=range(15),
)
def test_a_hostile_link_gets_a_sentence(packed: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        pins.pin_from_link(packed)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = raw(zlib.compress(b" " * 8_000_000, 9))
    assert len(bomb) < MAX_PACKED
    with pytest.raises(UserError):
        decompress(bomb)


def test_any_part_of_a_pin_may_be_hostile() -> None:
    """What is read can be planned, or is refused in a sentence."""
    tree = {"name": "x", "experiment": json.loads(EXPERIMENT.to_json())}
    draw = random.Random(3)
    refused = 0
    for path in _paths(tree):
        for value in draw.sample(HOSTILE, 4):
            changed = deepcopy(tree)
            part = changed
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = value
            try:
                pins.pin_from_link(compress(json.dumps(changed))).experiment.planned()
            except UserError as error:
                refused += 1
                assert str(error)
    assert refused > 100


def _paths(tree: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*before, key)
        yield from _paths(value, (*before, key))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[1]",
        b'{"format":"dpviz pins","pins":[]}',
        b'{"pins":[1]}',
        b"[" * 100_000,
        b" " * 1_000_000,
    ],
    ids=range(7),
)
def test_a_hostile_file_gets_a_sentence(content: bytes) -> None:
    with pytest.raises(UserError, match=r"\."):
        pins.from_file(content)


def test_a_file_holds_no_more_pins_than_all_pages() -> None:
    with pytest.raises(UserError, match="holds 16 pins"):
        pins.from_file(pins.to_file([PIN] * 16).encode())


@pytest.mark.parametrize("label", ["<i>x</i>", "x" * 30 + "<a href='//e.co'>here</a>", "x\n", ""])
def test_methods_have_no_names_with_markup_however_long(label: str) -> None:
    tree = {"name": "x", "experiment": json.loads(EXPERIMENT.to_json())}
    tree["experiment"]["arms"][0]["label"] = label
    with pytest.raises(UserError):
        pins.pin_from_link(compress(json.dumps(tree)))


def test_names_hold_no_markup() -> None:
    assert pins.clean("  a <b>\n[x](y) :red[c] \u202e`$x$` " + "z" * 99) == "a bx(y) :redc x zzzzzzzzzzzzzz"
    assert pins.clean("z" * 29 + " z") == "z" * 29  # else a link would bring another pin than this one
    linked = Pin("<a href='x'>", EXPERIMENT.replaced(arms=(ARMS[0].replaced(label="<i>x</i>"), ARMS[1])))
    with pytest.raises(UserError, match="cannot be shown"):
        pins.pin_from_link(linked.to_link())
    assert pins.pin_from_link(Pin("<>", EXPERIMENT).to_link()).name == "Pin"
