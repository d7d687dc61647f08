"""The one list of family pages: what the menu and the start page say of each, and where its page is.

A page is imported when it is opened or asked for a preset, so that the first page of a visit waits for no other.
"""

from dataclasses import dataclass
from importlib import import_module

from dpviz.ui.experiment.page import FamilyPage


@dataclass(frozen=True)
class Entry:
    """A family's page as others introduce it.

    name : of its packages in `dpviz.families` and `dpviz.ui`.
    guarantee, question : the words of its card on the start page.
    """

    name: str
    icon: str
    title: str
    guarantee: str
    question: str

    @property
    def address(self) -> str:
        """The file that `st.Page` and `st.switch_page` take."""
        return f"pages/{self.name}.py"

    def page(self) -> FamilyPage:
        """The page's description, from the family's own package in `dpviz.ui`."""
        found = import_module(f"dpviz.ui.{self.name}.page").PAGE
        assert isinstance(found, FamilyPage)
        return found


FAMILIES: tuple[Entry, ...] = (
    Entry(
        name="accelerated",
        icon=":material/rocket_launch:",
        title="Accelerated gradient",
        guarantee="Pure ε with Laplace noise; (ε, δ), ρ-zCDP or μ-GDP with Gaussian noise. One row replaced.",
        question="Momentum needs fewer steps but amplifies noise. For your data and budget: which method, how many "
        "steps, and how should the budget be spread over them?",
    ),
    Entry(
        name="mirror_descent",
        icon=":material/casino:",
        title="Private games",
        guarantee="(ε, δ), pure ε, ρ-zCDP or μ-GDP by drawing vertices with the exponential mechanism. One row "
        "replaced.",
        question="Two players, thousands of strategies, one budget: equilibria, fair models for the worst group, "
        "synthetic data. Why does the error hardly grow with the number of strategies?",
    ),
    Entry(
        name="second_order",
        icon=":material/landscape:",
        title="Second-order solutions",
        guarantee="(ε, δ), ρ-zCDP or μ-GDP with Gaussian noise on gradients and Hessians. One row replaced.",
        question="Where the gradient is small the ground is flat: a valley, or a mountain pass? Can your budget tell, "
        "how many steps will it take, and what would make it enough?",
    ),
    Entry(
        name="zeroth_order",
        icon=":material/touch_app:",
        title="Zeroth-order optimisation",
        guarantee="μ-GDP exactly, and what follows of it: (ε, δ), ρ-zCDP; pure ε with DP-ZO. One row replaced.",
        question="You may only ask for values, never gradients: of a simulator, of votes, of somebody else's model. "
        "What does privacy cost, and which way to ask wastes the least of it?",
    ),
    Entry(
        name="bayesian_optimization",
        icon=":material/model_training:",
        title="Private tuning",
        guarantee="μ-GDP exactly, and what follows of it: (ε, δ), ρ-zCDP; pure ε with random search. One user of the "
        "validation data replaced.",
        question="A model's settings are chosen on people's data. Each training costs time, each step privacy: how "
        "much does a look cost, and when should you stop looking?",
    ),
)


def named(name: str) -> Entry:
    """The family of this name."""
    return next(family for family in FAMILIES if family.name == name)
