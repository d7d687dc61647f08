"""The paper's tables, and what of a run stands beside them."""

import numpy as np
import pytest

from dpviz.experiments.experiment import Arm
from dpviz.experiments.results import Endings
from dpviz.experiments.sweep_result import Ended, Place, SweepResult
from dpviz.families.second_order import comparison, presets
from dpviz.families.second_order.published import EPSILONS, TABLES


def ended(epsilon: float, losses: list[float], converged: int, seconds: float) -> Ended:
    status = {"converged": converged, "exhausted": len(losses) - converged}
    endings = Endings(converged, len(losses), 8.0 if converged else float("nan"), status)  # type: ignore[arg-type]
    return Ended(Place(0, epsilon), np.array(losses), 0, endings, seconds)


def test_a_run_fills_its_cells_beside_the_papers() -> None:
    arms = [Arm(label=label, algorithm=presets.METHODS[label]) for label in ("OPT", "2OPT-LS")]
    result = SweepResult(arms, "objective", 3)
    result.curves["OPT"].add(ended(0.6, [0.70, 0.72], 2, 3.0))
    result.curves["2OPT-LS"].add(ended(0.6, [0.60, 0.64], 2, 1.5))
    result.curves["OPT"].add(ended(1.0, [0.5, 0.5], 1, 9.0))
    rows = {
        (epsilon, row["Method"]): row for epsilon in EPSILONS for row in comparison.rows("loose", epsilon, result, {})
    }
    assert len(rows) == len(EPSILONS) * len(TABLES["loose"])
    found = rows[0.6, "OPT"]
    assert found["Loss, here"] == "0.710 ± 0.010" and found["Loss, paper"] == "0.712 ± 0.018"
    assert found["Finished, here"] == "2 of 2, step 8" and found["Finished, paper"] == "yes"
    assert (found["Time, here"], rows[0.6, "2OPT-LS"]["Time, here"]) == ("2×", "1×")
    assert found["Time, paper"] == "1.5×"  # 0.6 over 0.4 of OPT-LS
    assert rows[1.0, "OPT"]["Time, here"] is None  # one of its runs did not finish
    assert rows[0.2, "OPT"]["Finished, paper"] == "×" and rows[0.2, "OPT"]["Loss, here"] is None


@pytest.mark.parametrize("tolerances", TABLES)
def test_the_tables_experiment_has_every_method_of_the_paper(tolerances: str) -> None:
    experiment = presets.paper(tolerances)  # type: ignore[arg-type]
    assert {arm.label for arm in experiment.arms} == set(TABLES[tolerances])  # type: ignore[index]
    assert not experiment.planned().refused
