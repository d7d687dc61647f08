"""The constants of the analysis: which part of a tolerance the noise may take, and how a line search goes."""

from typing import ClassVar

from pydantic import model_validator

from dpviz import resources
from dpviz.specification import Specification, number

CONTROLS = resources.data(__package__, "controls.toml")  # label, symbol and help of every field


class Constants(Specification):
    """Shares of the tolerances that noise may use up.

    The stopping test uses ε_g = α/(1 + c₁) and ε_H/(1 + c), so that a point that passes it has ‖∇f‖ ≤ α and
    λ_min ≥ -ε_H as long as the noise stays within its shares (THEORY.md, "Decrease").
    """

    kind: ClassVar[str] = "families.second_order.constants"
    c_1: float = number(0.1, 0.02, 0.45, **CONTROLS["c_1"])
    c: float = number(0.1, 0.01, 0.3, **CONTROLS["c"])
    c_2: float = number(1 / 12, 0.005, 0.3, **CONTROLS["c_2"])

    @model_validator(mode="after")
    def _steps_decrease(self) -> "Constants":
        if self.c + self.c_2 >= 1 / 3:
            raise ValueError("c + c₂ must be below 1/3, or a curvature step need not decrease the objective")
        return self


class Ladder(Specification):
    """The step sizes that a line search tries, and when it accepts one (THEORY.md, "Line search")."""

    kind: ClassVar[str] = "families.second_order.ladder"
    c_g: float = number(0.6, 0.05, 0.9, **CONTROLS["c_g"])
    c_h: float = number(0.25, 0.01, 0.7, **CONTROLS["c_h"])
    beta_g: float = number(0.6, 0.1, 0.95, **CONTROLS["beta_g"])
    beta_h: float = number(0.5, 0.1, 0.95, **CONTROLS["beta_h"])
    b_g: float | None = number(None, 1.0, 50.0, **CONTROLS["b_g"])
    b_h: float = number(20.0, 1.0, 50.0, **CONTROLS["b_h"])

    def refused_with(self, constants: Constants) -> str:
        """Why these do not go together; empty if they do."""
        if constants.c_1 + self.c_g >= 1:
            return "c₁ + c_g must be below 1, or the line search has no gradient step that it is sure to accept"
        if (1 - constants.c - self.c_h) ** 2 / 4 <= 2 * constants.c_2 / 3:
            return "(1 - c - c_H)²/4 must be above 2c₂/3, or it has no curvature step that it is sure to accept"
        return ""
