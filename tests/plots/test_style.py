import re
from itertools import product

import pytest

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov, presets
from dpviz.plots.style import DASHES, DOTS, HUES, PALETTE, PLOT_CONFIG, arm_styles, layout, with_opacity
from dpviz.privacy.budgets import NoPrivacy


def luminance(color: str) -> float:
    """Relative luminance of "#RRGGBB" (WCAG 2.2)."""
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("color", "page"), list(product(PALETTE.values(), ("#FFFFFF", "#171614"))))
def test_every_colour_has_a_contrast_of_three_to_one_on_the_light_and_the_dark_page(color: str, page: str) -> None:
    bright, dark = sorted((luminance(color), luminance(page)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3


def test_hue_is_the_update_rule_and_dash_its_variant() -> None:
    styles = arm_styles(presets.arms(presets.SIX_METHODS))
    blue, orange, green, purple = HUES
    assert {label: (style.color, style.dash) for label, style in styles.items()} == {
        "DP-GD": (blue, "solid"),
        "DP-HB": (orange, "solid"),
        "DP-NAG": (green, "solid"),
        "DP-NAG-opt": (green, "dash"),
        "DP-MASG": (purple, "solid"),
        "DP-MASG-opt": (purple, "dash"),
    }


def test_references_are_dotted_in_the_hue_of_their_rule_or_grey_without_one() -> None:
    arms = (
        Arm(label="plain HB", algorithm=HeavyBall(), budget=NoPrivacy()),
        Arm(label="GD", algorithm=GradientDescent()),
        Arm(label="plain GD", algorithm=GradientDescent(), budget=NoPrivacy()),
    )
    styles = arm_styles(arms)
    assert styles["GD"].dash == "solid" and not styles["GD"].reference
    assert styles["plain GD"].color == styles["GD"].color and styles["plain GD"].dash in DOTS
    assert styles["plain HB"].color == PALETTE["no privacy"] and styles["plain HB"].dash in DOTS
    assert styles["plain GD"].reference and styles["plain HB"].reference


def test_all_arms_of_the_largest_comparisons_can_be_told_apart() -> None:
    rules = (GradientDescent, HeavyBall, Nesterov, MultistageNesterov)
    same = [Arm(label=str(i), algorithm=Nesterov()) for i in range(16)]
    mixed = [Arm(label=str(i), algorithm=rules[i % 4](), budget=NoPrivacy() if i > 7 else None) for i in range(16)]
    references = [Arm(label=str(i), algorithm=Nesterov(), budget=NoPrivacy()) for i in range(16)]
    for arms in (same, mixed, references):
        assert len(set(arm_styles(arms).values())) == 16
    assert not set(DASHES) & set(DOTS)


def test_layout_leaves_title_and_colours_to_the_page() -> None:
    figure = layout("Step t", "Loss", log_y=True, notes=["one run"], height=380)
    assert not {"title", "paper_bgcolor", "plot_bgcolor", "font", "template"} & set(figure)
    assert figure["height"] == 380 and figure["hovermode"] == "x unified" and figure["uirevision"]
    assert figure["legend"]["orientation"] == "h" and figure["annotations"][0]["text"] == "one run"
    assert (figure["xaxis"]["type"], figure["yaxis"]["type"]) == ("linear", "log")


def test_many_legend_entries_do_not_shrink_the_axes() -> None:
    assert layout("x", "y", legend_entries=6)["height"] == 320 < layout("x", "y", legend_entries=10)["height"]
    assert not layout("x", "y", legend_entries=1)["showlegend"]


def test_figures_are_never_offered_to_a_third_party() -> None:
    assert PLOT_CONFIG["showSendToCloud"] is False


def test_with_opacity() -> None:
    assert with_opacity("#0072B2", 0.18) == "rgba(0,114,178,0.18)"
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in PALETTE.values())
