"""The constants of the analysis: which part of a tolerance the noise may take, and how a line search goes."""

from typing import ClassVar

from pydantic import model_validator

from dpviz.specification import Specification, number


class Constants(Specification):
    """Shares of the tolerances that noise may use up.

    The stopping test uses ε_g = α/(1 + c₁) and ε_H/(1 + c), so that a point that passes it has ‖∇f‖ ≤ α and
    λ_min ≥ -ε_H as long as the noise stays within its shares (THEORY.md, "Decrease").
    """

    kind: ClassVar[str] = "families.second_order.constants"
    c_1: float = number(
        0.1,
        0.02,
        0.45,
        label="Gradient noise",
        symbol="c₁",
        help="Share of ε_g that the gradient's noise may take. Smaller = stops sooner; 0.268 needs the fewest rows to "
        "guarantee it.",
    )
    c: float = number(
        0.1, 0.01, 0.3, label="Hessian noise", symbol="c", help="Share of ε_H that the Hessian's noise may take."
    )
    c_2: float = number(
        1 / 12,
        0.005,
        0.3,
        label="Gradient noise in curvature steps",
        symbol="c₂",
        help="Gradient noise along a curvature step, as a share of ε_H²/M. Needs c + c₂ < 1/3.",
    )

    @model_validator(mode="after")
    def _steps_decrease(self) -> "Constants":
        if self.c + self.c_2 >= 1 / 3:
            raise ValueError("c + c₂ must be below 1/3, or a curvature step need not decrease the objective")
        return self


class Ladder(Specification):
    """The step sizes that a line search tries, and when it accepts one (THEORY.md, "Line search")."""

    kind: ClassVar[str] = "families.second_order.ladder"
    c_g: float = number(
        0.6,
        0.05,
        0.9,
        label="Decrease of a gradient step",
        symbol="c_g",
        help="A step γ is accepted where f falls by c_g γ ‖g̃‖². Needs c₁ + c_g < 1.",
    )
    c_h: float = number(
        0.25,
        0.01,
        0.7,
        label="Decrease of a curvature step",
        symbol="c_H",
        help="A step γ is accepted where f falls by c_H γ² |λ̃|/2. Needs (1 - c - c_H)²/4 > 2c₂/3.",
    )
    beta_g: float = number(
        0.6, 0.1, 0.95, label="Shrinking, gradient", symbol="β_g", help="Ratio of a candidate to the one before."
    )
    beta_h: float = number(
        0.5, 0.1, 0.95, label="Shrinking, curvature", symbol="β_H", help="Ratio of a candidate to the one before."
    )
    b_g: float | None = number(
        None,
        1.0,
        50.0,
        label="First candidate, gradient",
        symbol="b_g",
        scale="log",
        help="Times the step that is sure to be accepted. By theory: so that no step is longer than 12, at most 20.",
    )
    b_h: float = number(
        20.0,
        1.0,
        50.0,
        label="First candidate, curvature",
        symbol="b_H",
        scale="log",
        help="Times the step that is sure to be accepted.",
    )

    def refused_with(self, constants: Constants) -> str:
        """Why these do not go together; empty if they do."""
        if constants.c_1 + self.c_g >= 1:
            return "c₁ + c_g must be below 1, or the line search has no gradient step that it is sure to accept"
        if (1 - constants.c - self.c_h) ** 2 / 4 <= 2 * constants.c_2 / 3:
            return "(1 - c - c_H)²/4 must be above 2c₂/3, or it has no curvature step that it is sure to accept"
        return ""
