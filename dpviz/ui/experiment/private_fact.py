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
    """That the value in use was typed, and what follows."""
    st.caption(texts.TYPED.format(symbol=symbol))


@dataclass(frozen=True)
class Purchase:
    """What computes the value of a control from the data, and what that has cost.

    name : of the control that takes the value; `<name>_cost` takes what a release spends. symbol : of that cost.
    what : the value in words. about : all of the problem that the value depends on. file : of an upload, whose releases
        all count; None for data that are public.
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
        """What they cost together."""
        return math.fsum(self.paid)

    @property
    def _found(self) -> dict[float | None, tuple[str, float | None]]:
        """Of every value that was computed: what for, and what it cost; None for one that was no release."""
        found: dict[float | None, tuple[str, float | None]]
        found = st.session_state.setdefault(self.panel.key(f"{self.name}_for"), {})
        return found

    def made_for(self, value: float | None) -> str | None:
        """What this value was computed for; None for a number that was typed or that a preset states."""
        return self._found.get(value, (None, None))[0]

    def computed(self, value: float | None) -> bool:
        """Whether this value was computed from the data, and no budget paid for it."""
        return value in self._found and self._found[value][1] is None

    def cost_of(self, value: float | None) -> float | None:
        """What the release of this value cost, with all others from the same file; None if it was not released."""
        cost = self._found.get(value, (None, None))[1]
        return self.total if cost is not None and self.paid else cost

    def typed(self, value: float) -> None:
        """Note that this value, which nothing computed, was used as declared."""
        st.session_state[self.panel.key(f"{self.name}_typed")] = value

    def is_typed(self, value: float | None) -> bool:
        """Whether this value was the last that was declared: used as such, or typed."""
        return bool(st.session_state.get(self.panel.key(f"{self.name}_typed")) == value)

    def elsewhere(self, value: float | None, cost: float | None) -> None:
        """Note what settings from elsewhere, such as a link, say of this value: an estimate, cost None, or a release.
        It stays that, whatever name it gets here, unless it was declared here before."""
        if value is None or value in self._found or self.is_typed(value):
            return
        self._found[value] = self.about, cost
        if cost is not None:
            self.paid.append(cost)

    def known(self, value: float) -> None:
        """The value's owner says that it was known beforehand; for callbacks."""
        self._found.pop(value, None)

    def offer_release(self, value: float | None, spends: float, compute: Callable[[], float]) -> None:
        """The button that computes the value, at this cost, with what was spent before."""
        self.panel.reads_leads = True
        paid = " + ".join(short(cost) for cost in self.paid)
        spent = f"Spent {self.symbol} = {paid}" if paid else f"Spends {self.symbol} = {short(spends)}"
        st.caption(f"{spent} before the run; the plan gets the rest.")
        st.button(
            f"Release {self.what}",
            key=self.panel.key("release"),
            on_click=self.keep,
            args=(spends, compute),
            disabled=self.made_for(value) == self.about and not self.computed(value),
            help="One release of the same data and model: a second one would cost the budget again.",
        )

    def keep(self, cost: float | None, compute: Callable[[], float]) -> None:
        """Compute the value and write it into its control, with its cost; for callbacks. None: it was no release."""
        try:
            found = compute()
            self.panel.write({self.name: found, f"{self.name}_cost": cost})
        except UserError as error:
            st.session_state[self.panel.key(f"{self.name}_error")] = error
        else:
            self._found[found] = self.about, cost
            if cost is not None:
                self.paid.append(cost)

    def say_error(self) -> None:
        """What went wrong when the button was pressed."""
        error = st.session_state.pop(self.panel.key(f"{self.name}_error"), None)
        if error is not None:
            st.error(str(error), title=error.title)

    def warn(self, counted: bool, where: str, value: float | None) -> None:
        """What to mind: releases that the plan does not count, and a value that was computed for something else.

        counted : whether the plan counts them. where : the setting with which it would.
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
