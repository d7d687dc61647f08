"""A mistake that was made on purpose, on the tiny case at a saddle."""

from dataclasses import replace

from dpviz.audits.audit import load
from dpviz.families.second_order.audits import CASES
from dpviz.privacy.verification.broken import QuietBeside

(CURVED,) = (case for case in CASES if case.name == "short_step_curvature")
BROKEN = load(__package__, {"quiet_beside": (replace(CURVED, source=QuietBeside), CURVED)})
