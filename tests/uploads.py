"""Problems on a visitor's own file, whichever family's page offers them."""

from dpviz.datasets import Upload
from dpviz.errors import UserError
from dpviz.problems.base import ProblemSpecification
from dpviz.ui.experiment.problem_menu import ANY, ProblemMenu


def on(kind: type[ProblemSpecification], upload: Upload) -> ProblemSpecification | None:
    """The problem with its usual settings on an upload; None if it is not one for such data."""
    try:
        return kind(data=upload)  # type: ignore[call-arg]
    except UserError:
        return None


def on_a_file(menu: ProblemMenu) -> tuple[type[ProblemSpecification], ...]:
    """The kinds of problem for which the menu of a page offers the visitor's own file."""
    generated = {name for sources in menu.sources.values() for name in sources}  # such as a quadratic: a source itself
    return tuple(
        problem.cls
        for name, problem in menu.problems.items()
        if any(source.upload for source in (menu.sources.get(ANY) or menu.sources.get(name, {})).values())
        and not (ANY in menu.sources and name in generated)
    )
