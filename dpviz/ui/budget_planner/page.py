"""The budget planner: what a guarantee is worth and what it buys. No data needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz import privacy
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.noisy_means import NoisyMeans, protected_change
from dpviz.ui import downloads, explain, glossary, links
from dpviz.ui.budget_planner import ABOUT, ANALYSES, SOLVED, accuracy, analyses, declared, tabs, texts, view
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import PageBody, Panel, Settings, draw_errors
from dpviz.ui.experiment import controls, guarantee
from dpviz.ui.experiment.plan import Charts

# Options of the page's choices, by value: what is asked of the releases, and what is solved for.
ATTACKER = {"people": "Of 100 people", "curve": "Trade-off curve"}  # pictures of what an attacker can do
QUESTIONS = {"error": "Error I get", "rows": "Rows I need", "sources": "Sources"}
SOLVE = {
    "noise": "Noise",
    "steps": "Steps",
    "rows": "Rows",
    "people": "People",
    "search": "Search",
    "dpsgd": "DP-SGD",
    "budget": "Budget",
}
Planned = tuple[Charts, Releases | None]  # charts of a section, and the releases that they are about


def show() -> None:
    """Draw the page: the sidebar, and all below the title as a fragment, which is drawn again alone."""
    panel = Panel("planner")
    st.title("Budget planner", anchor=False)
    st.markdown(texts.QUESTION)
    with st.container(key=panel.key("tools"), horizontal=True):
        glossary.mark_terms(panel.key("words"))
    with st.sidebar:
        st.subheader("Privacy", anchor=False)
        budget = controls.budget(panel, currencies=view.ALL_CURRENCIES)
        delta = guarantee.delta(panel, budget, under_pure=True)
        st.subheader("What is released", anchor=False)
        controls_by_name = {control.name: control for control in NoisyMeans.controls()}
        # Three controls are drawn above the answer, in this order; `add_lead` writes their values into the mappings.
        values: dict[str, Any] = {}
        panel.add_lead(1, controls_by_name["rows_per_person"], into=values)
        panel.add_lead(2, controls_by_name["rows"], into=values)
        values |= panel.draw_controls(NoisyMeans, ["sampling"])
        omitted = {*values, "batch_fraction"} if values["sampling"] == "all" else {*values}
        values |= panel.draw_controls(NoisyMeans, [name for name in controls_by_name if name not in omitted])
        wanted: dict[str, Any] = {}
        panel.add_lead(3, analyses.WANTED, into=wanted)
    _Planner(panel, budget, Settings(NoisyMeans, values), delta, wanted).show()


@dataclass
class _Planner(PageBody):
    """All of the page but its sidebar: the answer, the chart of the attacker, and the sections.

    budget, means : settings of the guarantee and of the noisy means.
    delta : δ at which guarantees are read as (ε, δ).
    wanted : the largest acceptable error, by the name of its control `analyses.WANTED`.
    about, question : what is released, a key of ABOUT, and what is asked of it, a key of QUESTIONS.
    figures : the charts drawn so far, for the download.
    """

    budget: Settings[Budget]
    means: Settings[NoisyMeans]
    delta: float
    wanted: Mapping[str, Any]
    about: str = "statistics"
    question: str = "error"
    figures: Charts = field(default_factory=list)

    def draw(self) -> None:
        """Draw the switches, the answer next to the chart of the attacker, and the sections.

        The answer and that chart are above the sections, but are drawn after them: they depend on what the open section
        plans. A mistake in the settings is drawn in their place.
        """
        self.draw_leads()
        with st.container(key=self.panel.key("switches"), horizontal=True):
            help = "Counts, means and the like, each released once; or a model that is trained in T noisy steps."
            self.about = self.panel.choice("about", "What is released", ABOUT, "statistics", help, on_change=self._open)
            self.question = self.panel.choice("question", "First picture", QUESTIONS, "error", texts.QUESTION_HELP)
            picture = self.panel.choice("attacker", "What an attacker can do", ATTACKER, "people", texts.ATTACKER_HELP)
        head, below, self.figures = st.container(), st.container(), []
        budget = means = planned = None
        with draw_errors(head):
            self.panel.check()
            budget, means = self.budget.build(), self.means.build()
        foot = head  # after a mistake; else it is below the answer
        if budget is not None and means is not None:
            with head:
                self.panel.hidden_heading("The answer")
                answer, chart = st.columns(2, gap="medium")
                foot = st.container(horizontal=True, vertical_alignment="center")
            with below:
                planned = self._sections(means, budget, answer)
            is_about_means = self.about != "statistics"
            relation = means.relation if is_about_means else analyses.relation(self.panel)  # of the answer
            protects = protected_change(relation, means.rows_per_person)
            if planned is not None:  # the releases of the open section, which may be others than those of the answer
                protects = planned.protects
                if planned.relation != relation:
                    protects += f" The answer above holds under {relation}."
                    relation = planned.relation
            foot.caption(f":material/group: **Who is protected: {relation}.** {protects}")
            with chart:
                if picture == "curve":
                    self.figures = view.attack_chart(self.panel, budget, means, planned, relation) + self.figures
                else:
                    self.figures = view.attacked_people(budget, means, planned, relation) + self.figures
        if not self.is_redraw:
            self.panel.say_unread()
        with foot:
            links.back_to_lesson()
            # In the JSON of a table, a cell that was read from a file begins with one of these marks, after its quote.
            marks = {"part of the analyses": f'"{declared.FROM_DATA}', "numbers of rows": f'"{tabs.FROM_DATA}'}
            texts_in_link = [str(text) for text in self.panel.query.values()]
            facts_read = [name for name, mark in marks.items() if any(mark in text for text in texts_in_link)]
            links.show(self.panel, facts_read=facts_read)
            if self.figures:
                downloads.figures(self.panel, lambda: self.figures, facts_read)

    def _sections(self, means: NoisyMeans, budget: Budget, answer: DeltaGenerator) -> Releases | None:
        """Draw the open section, and the answer in the container `answer`.

        Returns the releases that the open section plans: the noisy means of the sidebar where it plans nothing else;
        None where it plans something, but that is not possible.
        """
        panel, delta = self.panel, self.delta
        max_error = float(self.wanted[analyses.WANTED.name] or 0.0)  # `or` for the type checker: `check` refuses None
        question = self.question
        head = answer if self.about == "statistics" else None  # place of the answer if it is about the analyses
        means_releases = view.releases_of_means(means, budget)
        planned: Releases | None = means_releases

        def section(draw: Callable[[], Planned], otherwise: Releases | None = None) -> Callable[[], None]:
            """Return a section of the charts that `draw` returns with the releases that they are about.

            otherwise : the releases if `draw` raises UserError.
            """

            def show_section() -> None:
                nonlocal planned
                planned = otherwise  # until `draw` returns; `draw_errors` draws an error that it raises
                with draw_errors():
                    figures, planned = draw()
                    self.figures += figures
                    subject = planned or otherwise
                    if subject is not None:
                        texts_of_rows = subject.protects, subject.batches, subject.composition, subject.constants
                        explain.assumptions(*texts_of_rows, screen=texts.NOTHING_READ)

            return show_section

        # Only the open section is called, and so decides on `planned`.
        parts: dict[str, Callable[[], None]] = {
            ANALYSES: section(lambda: analyses.show_plan(panel, means, budget, delta, max_error, head, question)),
            SOLVED: section(lambda: self._solve(means, budget, max_error), otherwise=means_releases),
            "What it is worth": section(
                lambda: self._worth(means, budget), otherwise=None if self.about == "statistics" else means_releases
            ),
            "Accounting": section(
                lambda: (tabs.savings(means, budget, delta), means_releases), otherwise=means_releases
            ),
            "Split a budget": section(lambda: tabs.split(panel, means, budget, delta)),
            "Background": lambda: explain.theory("planner", privacy),
        }
        # The controls are kept, since the answer about the analyses reads theirs also while their section is closed.
        panel.sections(parts, ANALYSES, keeps=True)
        # The answer is above the sections, so its charts come first. The section of the analyses draws the answer about
        # them itself, if it is open.
        if head is None:
            by_rows = question == "rows"
            self.figures = accuracy.answer(panel, means, budget, max_error, answer, by_rows=by_rows) + self.figures
        elif not panel.shows(ANALYSES):
            self.figures = analyses.answer(panel, means, budget, max_error, head, question) + self.figures
        return planned

    def _solve(self, means: NoisyMeans, budget: Budget, max_error: float) -> Planned:
        """Draw the choice of what is solved for, and the solution; return its charts and the releases."""
        panel, means_releases = self.panel, view.releases_of_means(means, budget)
        name = panel.choice("solve", "Solve for", SOLVE, "noise", texts.SOLVE_HELP)
        if name == "budget":  # the budget is the solution, so nothing is planned under that of the page
            return accuracy.show_required_budget(panel, means, max_error, self.delta), None
        if name == "noise":
            return tabs.show_noise(means, budget), means_releases
        if name == "people":
            return tabs.people(panel, means), means_releases
        if name == "dpsgd":
            return tabs.trainers(panel, means, budget, self.delta), means_releases
        if name == "search":
            trainings, held_out = panel.number(tabs.TRAININGS, "trainings"), panel.number(tabs.HELD_OUT, "held_out")
            panel.check()  # raises if one of them is empty, so `or` is for the type checker
            return tabs.price_of_search(means, budget, int(trainings or 2), int(held_out or 1)), means_releases
        target = panel.number(tabs.TARGET, "target", empty="half of the present noise")  # for "steps" and "rows"
        panel.check()
        if name == "rows":
            return tabs.rows(means, budget, target), means_releases
        target_releases = view.releases_of_means(means, budget, tabs.target_noise(means, budget, target))
        return tabs.given_noise(means, budget, self.delta, target), target_releases

    def _worth(self, means: NoisyMeans, budget: Budget) -> Planned:
        """Draw what the guarantee is worth, and where others stand; return its charts, and the page's releases."""
        is_about_means = self.about != "statistics"
        releases = (
            view.releases_of_means(means, budget) if is_about_means else analyses.releases(self.panel, means, budget)
        )
        relation = means.relation if is_about_means else analyses.relation(self.panel)
        view.show_worth(budget, relation, means.rows_per_person, self.delta)
        return view.show_deployments(budget, self.delta), releases

    def _open(self) -> None:
        """Open the section that sets what is released, after a change of the choice "What is released"."""
        about = st.session_state[self.panel.key("about")]
        st.session_state[self.panel.key("section")] = ANALYSES if about == "statistics" else SOLVED
