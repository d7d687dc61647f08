from itertools import product

import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov, presets
from dpviz.families.mirror_descent import presets as mirror_presets
from dpviz.plots import displayed
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.style import DASHES, DOTS, NOT_PRIVATE, PALETTE, PLOT_CONFIG, arm_styles
from dpviz.privacy.budgets import NoPrivacy, PureDP
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.games.simplex_learning import SparseRegression
from dpviz.ui import appearance, components


def luminance(color: str) -> float:
    """Relative luminance of "#RRGGBB" (WCAG 2.2)."""
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("color", "page"), list(product(PALETTE.values(), ("#FFFFFF", "#171614"))))
def test_every_colour_has_a_contrast_of_three_to_one_on_the_light_and_the_dark_page(color: str, page: str) -> None:
    bright, dark = sorted((luminance(color), luminance(page)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3


CATALOGUES = (
    {"accelerated": tuple(presets.METHODS)}
    | {problem.__name__: mirror_presets.offered(problem)[0] for problem in (QuadraticGame, MatrixGame, MarginalQueries)}
    | {problem.__name__: mirror_presets.offered(problem)[0] for problem in (SparseRegression, GroupLoss)}
)


@pytest.mark.parametrize("labels", CATALOGUES.values(), ids=list(CATALOGUES))
def test_a_method_looks_the_same_whatever_else_is_chosen_in_whatever_order(labels: tuple[str, ...]) -> None:
    catalogue = {**mirror_presets.METHODS, **presets.METHODS}
    arms = [Arm(label=label, algorithm=catalogue[label]) for label in labels]
    together = arm_styles(arms)
    assert len(set(together.values())) == len(labels)
    assert arm_styles(arms[::-1]) == together
    for i, arm in enumerate(arms):
        assert arm_styles([arm]) == {arm.label: together[arm.label]}
        assert arm_styles([arms[i - 1], arm])[arm.label] == together[arm.label]


def test_a_schedule_of_ones_own_leaves_the_default_methods_their_styles() -> None:
    labels = presets.DEFAULT_METHODS
    assert arm_styles(presets.arms(labels, schedule="own")) == arm_styles(presets.arms(labels))


def test_all_arms_of_the_largest_comparisons_can_be_told_apart() -> None:
    rules = (GradientDescent, HeavyBall, Nesterov, MultistageNesterov)
    same = [Arm(label=str(i), algorithm=Nesterov()) for i in range(16)]
    mixed = [Arm(label=str(i), algorithm=rules[i % 4](), budget=NoPrivacy() if i > 7 else None) for i in range(16)]
    references = [Arm(label=str(i), algorithm=Nesterov(), budget=NoPrivacy()) for i in range(16)]
    for arms in (same, mixed, references):
        assert len(set(arm_styles(arms).values())) == 16
    assert not set(DASHES) & set(DOTS)


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_small_text_has_a_contrast_of_four_and_a_half_to_one(theme: str) -> None:
    page, side = {"light": ("#FFFFFF", "#F8F8F7"), "dark": ("#171614", "#21201D")}[theme]
    text = {"light": "#2F2D2B", "dark": "#EDEBE8"}[theme]
    for color in (NOT_PRIVATE[theme], text, appearance.PRESSED[theme]):
        assert contrast(color, page) >= 4.5
    assert contrast("#FFFFFF", appearance.BUTTON[theme]) >= 4.5
    for behind in (page, side):
        assert contrast(appearance.PRESSED[theme], behind) >= 4.5
        mixed = (
            appearance.CAPTION * int(text[i : i + 2], 16) + (1 - appearance.CAPTION) * int(behind[i : i + 2], 16)
            for i in (1, 3, 5)
        )
        assert contrast("#" + "".join(f"{round(channel):02X}" for channel in mixed), behind) >= 4.5


def test_figures_are_never_offered_to_a_third_party() -> None:
    assert PLOT_CONFIG["showSendToCloud"] is False
    assert "showSendToCloud: false" in components.asset_text("served/plot.js")
    assert '"showSendToCloud": false' in displayed.html(PureDP(epsilon=1.0))


def test_the_condition_of_private_curves_is_in_the_frame_once_though_it_wraps() -> None:
    condition = "private if known beforehand and the seed stays secret"
    for mark in (condition, f"not private: NAG, no privacy; {condition}", False):
        figure = go.Figure({"layout": style.layout(Axes("x", "y"), not_private=mark)})
        style.say_condition(figure, condition)
        (note,) = figure.layout.annotations
        assert condition in note.text.replace("<br>", " ") and max(map(len, note.text.split("<br>"))) <= 48
