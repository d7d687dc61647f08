"""A mistake that was made on purpose, on the tiny case at a saddle."""

from dataclasses import replace

from dpviz.audits.broken import Broken
from dpviz.families.second_order.audits import CASES
from dpviz.privacy.budgets import GaussianDP
from dpviz.privacy.verification.broken import QuietBeside

(CURVED,) = (case for case in CASES if case.name == "short_step_curvature")
BROKEN: tuple[Broken, ...] = (
    Broken(
        "quiet_beside",
        "A Hessian's noise divided by √2 twice",
        "Noise off the diagonal is smaller by √2 than on it. Here it is divided by √2 once more.",
        "The entries off the diagonal get half the variance that was declared. A canary whose Hessians differ on the "
        "diagonal only does not show it.",
        replace(CURVED, source=QuietBeside),
        CURVED,
        GaussianDP(mu=1.0),
        400,
        "tests",
    ),
)
