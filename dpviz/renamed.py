"""Modules that have moved, by the address that they had: settings, links and programs of earlier versions name it.

A kind keeps the address under which it was published first. An old address imports the module of today.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED = {  # package before, package after: modules, with a new name behind "=" if they have one
    ("experiments", "audits"): "audit broken claims needed one_run",
    ("experiments", "sweeps"): "fitting laws settings sweep sweep_result",
    ("experiments", "compare"): "comparison differences packing=link_codec pins",
    ("experiments", "exports"): "analyses_report export notebook spreadsheets",
    ("experiments", "lessons"): "budget_lessons lesson",
    ("experiments", "execution"): "auditing cluster executors increments line=fair_queue reader runner store worker",
    ("problems", "problems.linear"): "linear_base linear_models linear_sums quadratic regression",
    ("problems", "problems.nonconvex"): "nonconvex_losses nonconvex_risk symmetric",
    ("problems", "problems.games"): (
        "group_loss group_shares grouped marginals matrix_games quadratic_games simplex simplex_learning "
        "synthetic_tables"
    ),
    ("problems", "problems.values"): "black_box directions least_norm value_losses value_problem",
    ("problems", "problems.tuning"): "direct_tuning learners model_tuning trainer trainers users",
    ("datasets", "datasets.uploads"): (
        "arrow cells=parsing columns detection files from_data limits lines lists parquet reading texts upload"
    ),
    ("privacy", "privacy.statistics"): "allocation analyses answers noisy_means",
    ("privacy", "privacy.verification"): "broken choice_odds implementation known_choices standard_draws transcripts",
    ("plots", "plots.elements"): "axes html labels lines multiples readout sheets style words",
    ("families.mirror_descent", "families.mirror_descent.methods"): (
        "algorithms baselines best_responses bias_reduced certified minimisation noisy_gradients reference"
    ),
    ("experiments", "experiments"): "cells=task",
    ("families.accelerated", "families.accelerated"): "drawn=custom_schedule",
    ("families.bayesian_optimization", "families.bayesian_optimization"): (
        "along=posterior_slice joint=batch_refinement outlook=forecast"
    ),
    ("families.zeroth_order", "families.zeroth_order"): "outlook=forecast",
    ("plots", "plots"): "ghosts=pinned_overlay",
    ("ui", "ui"): "tab=browser_session typed=number_table",
    ("families.second_order", "families.second_order.methods"): (
        "algorithms escape krylov line_search releases states steps trust_region"
    ),
}
ADDRESSES = {"dpviz.pauses": "dpviz.checkpoints"} | {
    f"dpviz.{before}.{name.partition('=')[0]}": f"dpviz.{after}.{name.rpartition('=')[2]}"
    for (before, after), names in _MOVED.items()
    for name in names.split()
}


class Finder(MetaPathFinder, Loader):
    """Finds modules under their old addresses; the last one that Python asks."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Where a moved module is found; None for every other address."""
        return ModuleSpec(fullname, self) if fullname in ADDRESSES else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in its place."""
        sys.modules[module.__name__] = importlib.import_module(ADDRESSES[module.__name__])
