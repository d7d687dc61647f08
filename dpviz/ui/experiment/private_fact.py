"""A fact that a private release buys before the run: computed by a button, once, and counted."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import texts


def typed(panel: Panel, name: str) -> None:
    """Note that the value of a control was typed; for its callback."""
    st.session_state[panel.key(f"{name}_typed")] = st.session_state[panel.key(name)]


def say_typed(symbol: str) -> None:
    """Say that the value in use was typed, and the consequence."""
    st.caption(texts.TYPED.format(symbol=symbol))


@dataclass(frozen=True)
class Purchase:
    """A value of a control that a private release computes from the data, and the costs of its releases.

    name : of the control that takes the value; `<name>_cost` takes what a release spends. symbol : of that cost.
    what : the value in words. about : all parts of the problem on which the value depends, as text. file : key of an
        uploaded file, whose releases all count; None for public data.
    """

    panel: Panel
    name: str
    symbol: str
    what: str
    about: str
    file: Hashable | None

    @property
    def paid(self) -> list[float]:
        """The costs of all releases of this value from a file in this session."""
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
        """For every computed value: `about` of its problem, and its cost; cost None if it was no release."""
        origins: dict[float | None, tuple[str, float | None]]
        origins = st.session_state.setdefault(self.panel.key(f"{self.name}_for"), {})
        return origins

    def made_for(self, value: float | None) -> str | None:
        """Return `about` of the problem for which a value was computed; None for a value from typing or a preset."""
        return self._origins.get(value, (None, None))[0]

    def computed(self, value: float | None) -> bool:
        """Return true if this value was computed from the data, and no budget paid for it."""
        return value in self._origins and self._origins[value][1] is None

    def cost_of(self, value: float | None) -> float | None:
        """Return the cost of releasing this value, with all others from the same file; None if it was not released."""
        cost = self._origins.get(value, (None, None))[1]
        return self.total if cost is not None and self.paid else cost

    def typed(self, value: float) -> None:
        """Note that this value, which was not computed, is used as a declaration."""
        st.session_state[self.panel.key(f"{self.name}_typed")] = value

    def is_typed(self, value: float | None) -> bool:
        """Return true if this value is the last declared one: typed, or used as a declaration."""
        return bool(st.session_state.get(self.panel.key(f"{self.name}_typed")) == value)

    def elsewhere(self, value: float | None, cost: float | None) -> None:
        """Note the origin of a value in settings from elsewhere, such as a link: an estimate, cost None, or a release.

        Does nothing for a value that was computed or declared here before.
        """
        if value is None or value in self._origins or self.is_typed(value):
            return
        self._origins[value] = self.about, cost
        if cost is not None:
            self.paid.append(cost)

    def known(self, value: float) -> None:
        """Note that the value was known beforehand, as its owner declares; for callbacks."""
        self._origins.pop(value, None)

    def offer_release(self, value: float | None, spends: float, compute: Callable[[], float]) -> None:
        """Draw the button that computes the value at the cost `spends`, with the costs of earlier releases."""
        self.panel.reads_leads = True
        paid = " + ".join(short(cost) for cost in self.paid)
        cost = f"Spent {self.symbol} = {paid}" if paid else f"Spends {self.symbol} = {short(spends)}"
        st.caption(f"{cost} before the run; the plan gets the rest.")
        st.button(
            f"Release {self.what}",
            key=self.panel.key("release"),
            on_click=self.keep,
            args=(spends, compute),
            disabled=self.made_for(value) == self.about and not self.computed(value),
            help="One release of the same data and model: a second one would cost the budget again.",
        )

    def keep(self, cost: float | None, compute: Callable[[], float]) -> None:
        """Compute the value and write it into its control, with its cost, None if it is no release; for callbacks."""
        try:
            value = compute()
            self.panel.write({self.name: value, f"{self.name}_cost": cost})
        except UserError as error:
            st.session_state[self.panel.key(f"{self.name}_error")] = error
        else:
            self._origins[value] = self.about, cost
            if cost is not None:
                self.paid.append(cost)

    def say_error(self) -> None:
        """Draw the error of the last press of the button, if any."""
        error = st.session_state.pop(self.panel.key(f"{self.name}_error"), None)
        if error is not None:
            st.error(str(error), title=error.title)

    def warn(self, counted: bool, where: str, value: float | None) -> None:
        """Warn of releases that the plan does not count, and of a value that was computed for another problem.

        counted : true if the plan counts them. where : the setting with which it would.
        """
        if self.paid and not counted:
            st.warning(
                f"{self.symbol} = {short(self.total)} was spent on {self.what} of this file, and this plan does not "
                f"count it. It does {where}.",
                title=f"A release of {self.what} is not paid for",
            )
        if value is not None and self.made_for(value) not in (None, self.about):
            this = self.what.removeprefix("the ")
            st.warning(f"The data or the model changed after this {this} was computed. Compute it again.")
