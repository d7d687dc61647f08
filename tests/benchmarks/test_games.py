"""Private games: the default preset end to end, its plan, one move of its page, and a game at 10⁴ strategies.

Targets: the default preset below 5 s, its first record below 1.5 s; d = 10⁴ and n = 10⁵ in 60 s and 1.5 GiB.
"""

import itertools
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets.categories import CategoricalFacts
from dpviz.families.mirror_descent import presets
from dpviz.problems.games.marginals import Marginals
from dpviz.problems.games.synthetic_tables import synthetic_table
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.mirror_descent import plan as mirror_plan
from tests.pages.reading import charts

DEFAULT = presets.PRESETS[0]
EPSILON = itertools.count(1.0, 0.001)  # budgets that no cache has seen
ADDRESSES = {
    "default": {},
    "all_methods": {"mirror_methods_game": list(presets.offered(type(DEFAULT.experiment.problem))[0])},
    "accounting": {"mirror_tabs": "What accounting saves"},
    "synthetic": {"mirror_problem": "Synthetic data"},
}
LARGE_GAME = """
import json, resource, time
from dpviz.datasets.games import LatentGame
from dpviz.families.mirror_descent import presets
from dpviz.problems.games.matrix_games import MatrixGame

game = MatrixGame(data=LatentGame(rows=100_000, strategies_x=10_000, strategies_y=10_000))
arms = presets.arms({methods})
experiment = presets.PRESETS[0].experiment.replaced(problem=game, arms=arms, replicates={replicates})
estimated = experiment.estimated_seconds(experiment.plans())
began = time.perf_counter()
experiment.run()
seconds = time.perf_counter() - began
# A new process begins with the peak of the one that started it, so this is an upper bound.
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"peak_mib": peak, "seconds": seconds, "estimated_s": estimated}}))
"""


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name.split(":")[0].replace(" ", "_"))
def test_preset_end_to_end(report, preset: presets.Preset) -> None:  # type: ignore[name-defined]
    """From the click to the plans, to the first record, to the end."""
    experiment = preset.experiment

    def run() -> dict[str, float]:
        began = time.perf_counter()
        estimated = experiment.estimated_seconds(experiment.plans())
        marks = {"plans_s": time.perf_counter() - began}
        for _ in experiment.stream():
            marks.setdefault("first_record_s", time.perf_counter() - began)
        return marks | {"end_s": time.perf_counter() - began, "estimated_s": estimated}

    report(**report.benchmark.pedantic(run, rounds=1))


def test_plan_of_the_page(report) -> None:
    """Plans, bounds and drawings of the default methods at a new budget."""

    def planned() -> None:
        budget = DEFAULT.experiment.budget.replaced(epsilon=next(EPSILON))
        text = DEFAULT.experiment.replaced(budget=budget).to_json()
        shown = plan_view.view.__wrapped__(text, mirror_plan.predict)  # type: ignore[attr-defined]
        list(mirror_plan.drawings(shown))

    report.benchmark.pedantic(planned, rounds=8, warmup_rounds=1)
    report(budget_ms=100)


@pytest.mark.parametrize("address", ADDRESSES)
def test_move_of_the_budget(report, address: str) -> None:
    """From a new ε, which no cache knows, to all elements of the page."""
    app = AppTest.from_file("../../app.py", default_timeout=60)
    for name, value in ADDRESSES[address].items():  # type: ignore[attr-defined]
        app.query_params[name] = value
    app.run().switch_page("pages/mirror_descent.py").run()
    if "mirror_tabs" in ADDRESSES[address]:
        app.session_state["mirror_tabs"] = ADDRESSES[address]["mirror_tabs"]
    assert not app.exception

    def move() -> None:
        app.number_input(key="mirror_epsilon").set_value(next(EPSILON)).run()

    report.benchmark.pedantic(move, rounds=8, warmup_rounds=2)
    assert not app.exception
    report(charts=len(charts(app)), budget_ms=100)


@pytest.mark.parametrize(
    ("methods", "replicates"),
    [(["Vertex sampling"], 1), (["Vertex sampling", "As in the paper"], 20), (["DP-SGDA"], 1)],
    ids=["vertex_sampling_once", "vertex_sampling_20_times", "euclidean_once"],
)
def test_game_with_ten_thousand_strategies(report, methods: list[str], replicates: int) -> None:
    """At n = 10⁵ and the default preset's T, data and diagnostics included, in a process of its own."""
    program = [sys.executable, "-c", LARGE_GAME.format(methods=methods, replicates=replicates)]
    output = report.benchmark.pedantic(lambda: subprocess.check_output(program, text=True), rounds=1)
    report(**json.loads(output), budget_mib=1536, budget_s=60)


@pytest.mark.parametrize(("sizes", "ways"), [((2,) * 14 + (3,), 3), ((36, 37, 37), 2)], ids=["many_tables", "few"])
def test_a_synthetic_table_of_the_largest_domain(report, sizes: tuple[int, ...], ways: int) -> None:
    columns = tuple((f"c{i}", tuple(map(str, range(size)))) for i, size in enumerate(sizes))
    marginals = Marginals(CategoricalFacts(30_000, columns), ways)
    shares = np.random.default_rng(0).dirichlet(np.full(marginals.domain.domain_size, 0.3))
    report.benchmark.pedantic(lambda: synthetic_table(marginals, shares, 30_000), rounds=3)
    report(queries=marginals.queries, budget_ms=500)
