"""The budget planner: what a guarantee is worth and what it buys. No data needed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from dpviz import privacy
from dpviz.errors import UserError
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.ui import downloads, explain, glossary, links
from dpviz.ui.budget_planner import accuracy, analyses, split, tabs, texts, view
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Part, Settings, in_place
from dpviz.ui.experiment import controls, guarantee
from dpviz.ui.experiment.plan import Shown


def show() -> None:
    """Draw the page: the sidebar, and all else as a part that is drawn again alone."""
    panel = Panel("planner")
    st.title("Budget planner", anchor=False)
    st.markdown(texts.QUESTION)
    with st.container(key=panel.key("tools"), horizontal=True):
        glossary.words(panel.key("words"))
    with st.sidebar:
        st.subheader("Privacy", anchor=False)
        budget = controls.budget(panel, currencies=view.ALL_CURRENCIES, leads=True)
        delta = guarantee.delta(panel, budget)
        st.subheader("What is released", anchor=False)
        declared = {control.name: control for control in NoisyMeans.controls()}
        values: dict[str, Any] = {}
        panel.lead(1, declared["rows"], values)
        values |= panel.specification(NoisyMeans, ["sampling"])
        unused = {*values, "batch_fraction"} if values["sampling"] == "all" else {*values}
        values |= panel.specification(NoisyMeans, [name for name in declared if name not in unused])
        target = panel.number(tabs.TARGET, "target", empty="half of the present noise")
        wanted: dict[str, Any] = {}
        panel.lead(2, analyses.WANTED, wanted)
    _Planner(panel, budget, Settings(NoisyMeans, values), delta, target, wanted).show()


@dataclass
class _Planner(Part):
    """All of the page but its sidebar: the answer, the attacker, and the tabs, of which only the open one is computed.

    delta : of readings as (ε, δ). target : the noise of the what-ifs. wanted : takes the error that one can live with.
    drawn : the charts.
    """

    budget: Settings[Budget]
    means: Settings[NoisyMeans]
    delta: float
    target: float | None
    wanted: Mapping[str, Any]
    drawn: Shown = field(default_factory=list)

    def draw(self) -> None:
        """As `Part`."""
        self.draw_leads()
        head, below, self.drawn = st.container(), st.container(), []
        budget = means = planned = None
        with in_place(head):
            self.panel.check()
            budget, means = self.budget.build(), self.means.build()
        if budget is not None and means is not None:
            with head:
                answer, chart = st.columns(2, gap="medium")
                view.consequences(budget, means.relation)
                who = st.container()
            with below:
                planned = self._tabs(means, budget, answer)
            protects = planned.protects if planned else view.protected(means)
            who.caption(f":material/group: **Who is protected: {means.relation}.** {protects}")
            with chart:
                self.drawn = view.attack_chart(budget, means.relation, planned) + self.drawn
        if not self.again:
            self.panel.say_unread()
        with st.container(horizontal=True):
            links.back_to_lesson()
            links.show(self.panel)
            if self.drawn:
                downloads.figures(self.panel, lambda: self.drawn)
        if budget is not None and means is not None:
            said = planned or view.of_means(means, budget)
            explain.assumptions(said.protects, said.batches, said.composition, said.constants, texts.NOTHING_READ)
        explain.theory("planner", privacy)

    def _tabs(self, means: NoisyMeans, budget: Budget, answer: Any) -> Releases | None:
        """Draw them, and the answer in its place; what is planned in the open one, if anything is."""
        panel, delta, target = self.panel, self.delta, self.target
        planned: Releases | None = view.of_means(means, budget)
        looks: dict[str, Callable[[], Shown]] = {
            "Other currencies": lambda: view.currencies(budget, delta),
            "Noise": lambda: tabs.noise(means, budget),
            "A given noise": lambda: tabs.given_noise(means, budget, delta, target),
            "Rows": lambda: tabs.rows(means, budget, target),
            "What accounting saves": lambda: tabs.savings(means, budget, delta),
        }
        first, relative = "Your analyses", float(self.wanted[analyses.WANTED.name] or 0.0)
        # These have controls of their own, which belong to the address even while their tab is closed.
        set_here: dict[str, Callable[[bool], tuple[Shown, Releases | None]]] = {
            "Start from the accuracy": lambda is_open: accuracy.view(panel, delta, is_open),
            "Split a budget": lambda is_open: split.view(panel, means, budget, delta, is_open),
            first: lambda is_open: analyses.view(panel, means, budget, delta, relative, is_open, answer),
        }
        names = [first, *looks, *(name for name in set_here if name != first)]
        places = dict(zip(names, st.tabs(names, key=panel.key("tabs"), bind="query-params"), strict=True))
        for name, look in looks.items():
            if places[name].open:
                with places[name], in_place():
                    self.drawn += look()
        if places["A given noise"].open:
            with suppress(UserError):  # said in the tab
                planned = view.of_means(means, budget, tabs.wanted(means, budget, target))
        for name, part in set_here.items():
            if places[name].open:
                planned = None  # unless the tab has a plan of its own
            with places[name], in_place():
                shown, own = part(bool(places[name].open))
                self.drawn += shown
                planned = own or planned
        panel.query |= {panel.key("tabs"): name for name in names[1:] if places[name].open}
        return planned
