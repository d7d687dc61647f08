"""What the presets come to is what they say."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpviz.experiments.preset import Preset
from dpviz.families import zeroth_order
from dpviz.families.zeroth_order import measure, measured, presets
from dpviz.families.zeroth_order.advice import WAYS
from dpviz.families.zeroth_order.texts import ALIKE
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.values.black_box import BlackBox


@pytest.mark.slow
@pytest.mark.parametrize("preset", presets.PRESETS[1:], ids=lambda preset: preset.name)  # the first: test_algorithms
def test_expected_numbers_hold(preset: Preset) -> None:
    *_, last = preset.experiment.replaced(replicates=3).stream()
    for expected in preset.expected:
        found = float(np.median(last.trace.last(expected.arm, expected.metric)))
        assert expected.low <= found <= expected.high, (expected.arm, found)


def test_what_a_preset_reports_was_measured_and_lies_where_it_is_expected() -> None:
    table = measured.table()["presets"]
    assert list(table) == [preset.name for preset in presets.PRESETS]
    for preset in presets.PRESETS:
        found = table[preset.name]
        assert list(found) == ["start", *(arm.label for arm in preset.experiment.arms)]
        assert all(f"{label} " in preset.reported for label in found if label != "start")
        assert all(one.low <= found[one.arm] <= one.high for one in preset.expected)


def test_the_table_of_the_derivations_is_what_was_measured() -> None:
    """THEORY.md, 7: three digits of every median."""
    assert zeroth_order.__file__ is not None
    text = Path(zeroth_order.__file__).with_name("THEORY.md").read_text()
    section = text.partition("## 7.")[2].partition("## 8.")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in section if line.startswith("|")]
    methods = (presets.PUBLISHED, presets.PAPER, presets.IMPROVED, presets.NAIVE, presets.FRESH, presets.REFERENCE)
    for row, found in zip(rows[2:], measured.table()["presets"].values(), strict=True):
        told = dict(zip(("start", *methods), row[1:], strict=True))
        assert {name: float(value) for name, value in told.items() if value.strip()} == found


def test_the_table_of_the_default_is_what_was_measured() -> None:
    """THEORY.md, 8: three digits of the least and the largest mean, and of the median."""
    assert zeroth_order.__file__ is not None
    section = Path(zeroth_order.__file__).with_name("THEORY.md").read_text().partition("## 8.")[2]
    *_, free = measured.table()["default"].items()
    assert free == ("", {"as published": free[1]["as published"]})
    assert "without privacy {:g} to {:g}, and {:g}.".format(*free[1]["as published"]) in section
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == list(measure.DEFAULT)
    for name, *cells in rows:
        told = [[float(number) for number in cell.split("-")] for cell in cells]
        known = [measured.table()["default"][mu][name] for mu in ("0.3", "1", "3")]
        assert told == [part for low, high, median in known for part in ([low, high], [median])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget"), [("and batches that follow the moves", "0.3"), ("naive, one direction", "3")]
)
def test_the_default_can_be_measured_again(name: str, budget: str) -> None:
    """The same seeds: the same runs, but for the last digits of other processors."""
    assert measure.of_the_default(name, budget) == pytest.approx(measured.table()["default"][budget][name], rel=0.02)


def test_what_is_said_of_the_presets_is_so() -> None:
    """E9, and the texts: who ends lower in which of them."""
    table = measured.table()["presets"]
    clearly = {name for name, found in table.items() if found[presets.NAIVE] > 1.2 * found[presets.PUBLISHED]}
    assert {name.split(":")[0] for name in clearly} == {"Long epochs", "A small neural network"} and len(table) == 10
    for found in table.values():
        assert found[presets.PUBLISHED] < 1.2 * found[presets.NAIVE]
        assert found[presets.IMPROVED] < ALIKE * found[presets.FRESH], "as low as fresh estimates, or lower"
        assert found[presets.IMPROVED] < ALIKE * found[presets.PUBLISHED]
        assert found[presets.FRESH] < ALIKE * found[presets.NAIVE], "orthonormal directions help, or do no harm"
        assert found[presets.PUBLISHED] < ALIKE * found.get(presets.PAPER, np.inf)
    doctor = table["Doctor visits, from values only"]
    told = [doctor[name] for name in (presets.PUBLISHED, presets.NAIVE)]  # independent directions
    assert min(told) > ALIKE * max(doctor[name] for name in (presets.IMPROVED, presets.FRESH))
    rows = table["Theorem 4.9: how many rows does it take?"]
    assert max(rows[name] for name in (presets.IMPROVED, presets.FRESH)) < rows["start"] / 10
    ratio = table[presets.PRESETS[0].name]
    assert (ratio["start"] - ratio[presets.PUBLISHED]) / ratio["start"] == pytest.approx(1 / 3, abs=0.05), "a third"


def test_the_table_holds_every_problem_that_is_measured_with_every_option() -> None:
    table = dict(measured.table()["advice"])
    for sizes in measure.problems():
        cells = table.pop(measured.key(sizes[0]))
        assert [BlackBox.from_json(json.dumps(cell["problem"])) for cell in cells] == list(sizes)
        for problem, cell in zip(sizes, cells, strict=True):
            facts = problem.facts()
            assert (cell["size"], cell["radius"]) == (facts.d, facts.radius)
            assert cell["signals"] == pytest.approx([facts.n * mu for mu in measure.STRENGTHS])
            shape = (len(measure.STRENGTHS), len(cell["lengths"]), len(measured.EPOCHS))
            assert {name: np.shape(values) for name, values in cell["medians"].items()} == {
                way.name: shape for way in WAYS
            }
    assert not table


def test_runs_follow_the_noise_and_not_the_bound() -> None:
    """THEORY.md, 5: at the default and μ = 0.3, where the bound favours fresh estimates up to T = 5,376."""
    (cell, *_) = measured.table()["advice"]["phase_retrieval_absolute"]
    ends = {name: np.array(values[1]).min(axis=1) for name, values in cell["medians"].items()}  # (T,)
    assert (cell["size"], cell["radius"], cell["lengths"]) == (6, 0.1, [8, 16, 32, 64, 128])
    assert (ends["Published"] < ends["Naive"]).tolist() == [False, True, True, True, True]
    following, fresh = ends["Improved, batches follow the moves"], ends["Naive, orthonormal"]
    assert (following < fresh / 1.25).all() and following[3] == 0.00347 and fresh[3] == 0.195


@pytest.mark.slow
@pytest.mark.parametrize("preset", [presets.PRESETS[0], presets.PRESETS[-2]], ids=lambda preset: preset.name)
def test_medians_of_presets_can_be_measured_again(preset: Preset) -> None:
    """The same seeds: the same runs, but for the last digits of other processors."""
    found = measure.preset_medians(preset.name)
    assert found == pytest.approx(measured.table()["presets"][preset.name], rel=0.02)


@pytest.mark.slow
def test_cells_of_the_table_can_be_measured_again_and_hold_on_other_data() -> None:
    """The same seeds give the same median. That of other rows, with other noise, differs by what two medians of six do:
    1.25 · √(1/6 + 1/6) = 0.72 standard deviations of a run, each of which is up to half of the median; thrice."""
    sizes = measure.problems()[0]
    cell = measured.table()["advice"][measured.key(sizes[0])][0]
    for way in WAYS:
        known = cell["medians"][way.name][1][1][1]  # μ = 0.3, T = 16, K = 20
        assert measure.median(sizes[0].build(), way.method(), 0.3, 16, 20) == pytest.approx(known, rel=0.02)
        other = sizes[0].replaced(seed=7).build()
        ends = measure.ends(other, way.method(epoch_length=16, iterations=320), GaussianDP(mu=0.3), 6, 7)
        assert np.median(ends) == pytest.approx(known, rel=3 * 0.72 * 0.5)
