"""A fact about the data, such as the smoothness L, that a private release computes for a part of the budget.

A button computes it once, before the run, and writes it into a control, which the visitor can also fill by typing a
value that is known beforehand. The session counts the releases from an uploaded file, since each of them costs budget.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short_up
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import texts


def note_typed(panel: Panel, name: str) -> None:
    """Note that the visitor typed the present value of the control `name`; for the callback of this control."""
    st.session_state[panel.key(f"{name}_typed")] = st.session_state[panel.key(name)]


def say_typed(symbol: str) -> None:
    """Draw a caption that the value in use was typed, so it costs no budget but counts as declared.

    symbol : of the value.
    """
    st.caption(texts.TYPED.format(symbol=symbol))


@dataclass(frozen=True)
class PrivateFact:
    """A value of a control that a private release computes from the data, with the costs of all such releases.

    name : name of the control of the value; the control `<name>_cost` has the cost of its release. symbol : of the
    cost. what : name of the value in a sentence, such as "the gap". problem_json : text of the problem without the
    value, which depends on all of the problem. file : key of the uploaded file, all of whose releases add up; None for
    public data.
    """

    panel: Panel
    name: str
    symbol: str
    what: str
    problem_json: str
    file: Hashable | None

    @property
    def paid(self) -> list[float]:
        """The costs of all releases of this value from the file in this session, as a list that grows with them."""
        if self.file is None:
            return []
        costs: list[float] = st.session_state.setdefault(f"released_{self.name}", {}).setdefault(self.file, [])
        return costs

    @property
    def total(self) -> float:
        """Sum of the costs of all releases of this value."""
        return math.fsum(self.paid)

    @property
    def _origins(self) -> dict[float | None, tuple[str, float | None]]:
        """From every value that was computed in this session to the text of its problem, and its cost.

        The cost is None for a value that was computed from the data without noise, which is no release.
        """
        origins: dict[float | None, tuple[str, float | None]]
        origins = st.session_state.setdefault(self.panel.key(f"{self.name}_for"), {})
        return origins

    def problem_json_of(self, value: float | None) -> str | None:
        """Return the text of the problem for which a value was computed; None for one from typing or a preset."""
        problem_json, _ = self._origins.get(value, (None, None))
        return problem_json

    def is_estimate(self, value: float | None) -> bool:
        """Return true if a value was computed from the data without noise, so that no budget paid for it."""
        return value in self._origins and self._origins[value][1] is None

    def cost_of(self, value: float | None) -> float | None:
        """Return the cost of a value: of all releases from the same file together; None if it was not released."""
        _, cost = self._origins.get(value, (None, None))
        if cost is None:
            return None
        return self.total if self.paid else cost  # on public data nothing adds up

    def note_as_typed(self, value: float) -> None:
        """Note that a value is used as declared by the visitor, as if it had been typed."""
        st.session_state[self.panel.key(f"{self.name}_typed")] = value

    def is_typed(self, value: float | None) -> bool:
        """Return true if a value is the last one that was typed or used as declared."""
        return bool(st.session_state.get(self.panel.key(f"{self.name}_typed")) == value)

    def note_origin(self, value: float | None, cost: float | None) -> None:
        """Note the origin of a value that came with settings from elsewhere, such as a link.

        cost : the cost of its release; None if it was computed without noise. Does nothing for a value whose origin is
        known, since it was computed or declared in this session.
        """
        if value is None or value in self._origins or self.is_typed(value):
            return
        self._origins[value] = self.problem_json, cost
        if cost is not None:
            self.paid.append(cost)

    def forget_origin(self, value: float) -> None:
        """Note that a value was known beforehand, so that it no longer counts as computed; for callbacks."""
        self._origins.pop(value, None)

    def offer_release(self, value: float | None, spends: float, compute: Callable[[], float]) -> None:
        """Draw the button that computes the value by a release, with a caption on its cost or on the costs paid so far.

        value : present value of the control; the button is disabled if it is a release for the present problem.
        spends : cost of a release. compute : returns the released value; raises UserError.
        """
        self.panel.reads_leads = True  # the caption follows the budget, a leading control
        spent = f"Spends {self.symbol} = {short_up(spends)}"
        if self.paid:
            spent = f"Spent {self.symbol} = {' + '.join(map(short_up, self.paid))}"
        st.caption(f"{spent} before the run; the plan gets the rest.")
        st.button(
            f"Release {self.what}",
            key=self.panel.key("release"),
            on_click=self.write,
            args=(spends, compute),
            disabled=self.problem_json_of(value) == self.problem_json and not self.is_estimate(value),
            help="One release of the same data and model: a second one would cost the budget again.",
        )

    def write(self, cost: float | None, compute: Callable[[], float]) -> None:
        """Compute the value and write it into its control, and its cost into the other; for callbacks.

        cost : of the release; None if `compute` adds no noise. If `compute` raises UserError, nothing is written, and
        `say_error` draws the error.
        """
        try:
            value = compute()
            self.panel.set_values({self.name: value, f"{self.name}_cost": cost})
        except UserError as error:
            st.session_state[self.panel.key(f"{self.name}_error")] = error
        else:
            self._origins[value] = self.problem_json, cost
            if cost is not None:
                self.paid.append(cost)

    def say_error(self) -> None:
        """Draw the error of the last press of the button, if any."""
        error = st.session_state.pop(self.panel.key(f"{self.name}_error"), None)
        if error is not None:
            st.error(str(error), title=error.title)

    def warn(self, counted: bool, where: str, value: float | None) -> None:
        """Draw warnings of releases that the plan does not count, and of a value computed for another problem.

        counted : true if the plan counts the releases. where : text on the setting with which it would. value : the
        present value of the control.
        """
        if self.paid and not counted:
            st.warning(
                f"{self.symbol} = {short_up(self.total)} was spent on {self.what} of this file, and this plan does not "
                f"count it. It does {where}.",
                title=f"A release of {self.what} is not paid for",
            )
        if value is not None and self.problem_json_of(value) not in (None, self.problem_json):
            noun = self.what.removeprefix("the ")
            st.warning(f"The data or the model changed after this {noun} was computed. Compute it again.")
