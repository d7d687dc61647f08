"""What a run will take, and what keeps it from running."""

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.numbers import about, duration
from dpviz.sweeps import fitting
from dpviz.sweeps.fitting import Limits
from dpviz.ui.experiment.freshness import LONG
from dpviz.ui.experiment.run import Ready, runner


def forecast(ready: Ready) -> None:
    """Say before a long run how long it will take, and what would be quicker."""
    if ready.seconds > LONG and not ready.too_much:
        most = f", at most {duration(ready.seconds)}" if ready.may_stop_early else ""
        takes = f"{_counts(ready)}: {about(ready.likely if most else ready.seconds)}{most}"
        quicker = _advice(ready, Limits(LONG, runner().max_bytes), f"it takes less than {duration(LONG)}")
        st.caption(f"{takes}. You can stop it at any time and keep what was computed. {quicker}")


def refusal(ready: Ready) -> None:
    """Say before the run that it would take too long, or more memory than there is."""
    if not ready.too_much:
        return
    most, limit = runner().max_bytes, runner().max_seconds
    if ready.bytes > most:
        allowed, title = f"A run may use {most / 1e9:.0f} GB.", f"need about {ready.bytes / 1e9:.0f} GB of memory"
    else:
        takes = f"{'up to' if ready.may_stop_early else 'about'} {duration(ready.seconds)}"
        allowed, title = f"Runs end after {duration(limit)}.", f"take {takes}"
    st.error(f"{allowed} {_advice(ready, Limits(limit, most))}", title=f"This run would {title}")


def _advice(ready: Ready, limits: Limits, then: str = "it would fit") -> str:
    """What would make it keep to the limits."""
    return _found(ready.experiment.to_json(), limits, then)


@st.cache_data(max_entries=64, scope="session", show_spinner=False)
def _found(text: str, limits: Limits, then: str) -> str:
    return fitting.advice(fitting.ways(Experiment.from_json(text), limits.allow), then)


def _counts(ready: Ready) -> str:
    steps, runs = sum(plan.iterations for plan in ready.plans.values()), ready.experiment.replicates
    methods = f"{len(ready.plans)} method{'s' if len(ready.plans) != 1 else ''}"
    return f"{methods}, {steps:,} steps, {runs} run{'s' if runs != 1 else ''} of each"
