"""Say before a run that it needs more memory than there is, and what would fit."""

import streamlit as st

from dpviz.ui.experiment.run import Ready, runner


def refusal(ready: Ready) -> None:
    """Say so, with the repeats that would fit, if any do."""
    if not ready.too_much:
        return
    most, experiment = runner().max_bytes, ready.experiment
    one, two = (experiment.replaced(replicates=count).estimated_bytes(ready.plans) for count in (1, 2))
    fit = int((most - one) / (two - one)) + 1 if one <= most and two > one else 0  # memory is linear in the repeats
    fits = f"Choose at most {fit} repeat{'s' if fit > 1 else ''}, or" if fit else "Choose"
    st.error(
        f"A run may use {most / 1e9:.0f} GB. {fits} fewer methods or smaller data.",
        title=f"This run would need about {ready.bytes / 1e9:.0f} GB of memory",
    )
