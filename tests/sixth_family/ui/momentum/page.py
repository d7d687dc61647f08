"""The page of the family, described: a quadratic, or logistic regression on the visitor's own file."""

from dpviz.families import momentum
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.experiment.controls import Group
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.problem_menu import ANY, UPLOAD, ProblemEntry, ProblemMenu, Source, setting_names
from dpviz.ui.uploads import table

BOWL, MODEL = "quadratic", "Model and clipping"


class MomentumPage(FamilyPage):
    """One method, its settings, and the problem."""

    prefix = "momentum"
    package = momentum
    groups = (Group("", ("iterations", "relative_step", "momentum", "batch_fraction")),)
    problems = ProblemMenu(
        problems={
            "logistic": ProblemEntry(LogisticRegression, groups={MODEL: ("regularisation", "clip")}),
            BOWL: ProblemEntry(Quadratic, first=setting_names(Quadratic)),
        },
        sources={ANY: {BOWL: Source(Quadratic.title), UPLOAD: Source("Your own file", upload=table.choose_upload)}},
        expanders=(MODEL,),
    )


PAGE = MomentumPage()
