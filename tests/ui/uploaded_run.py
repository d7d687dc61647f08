"""A run on somebody's own file, for what may be shown of it."""

import numpy as np

from dpviz.datasets import UploadedTable
from dpviz.execution.runner import Runner
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.experiment.run import Run


def uploaded_run() -> Run:
    """DP-GD and its reference on 40 rows, two runs of four steps, ended; of the page whose keys begin with "p"."""
    data = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    tables = {data.identity: np.column_stack([np.linspace(0, 1, 40), np.tile([-1.0, 1.0], 20)])}
    experiment = Experiment(
        problem=LogisticRegression(data=data), arms=presets.arms(["DP-GD"], references=True, iterations=4), replicates=2
    )
    job = Runner(slots=0).submit(experiment, tables, wait=True)
    assert job.state == "done"
    return Run(job, experiment.plans(), "p", "P", tables)
