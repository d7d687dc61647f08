"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import gc
import sys

import streamlit as st

from dpviz.ui import navigation, streamlit_patches
from dpviz.ui.experiment.run import runner

navigation.configure()


@st.cache_resource
def prepare() -> None:
    """Once per server: start its workers, and spare every rerun a wait.

    What was imported need not be looked at each time that garbage is collected (45-80 ms). And NumPy, which gives up
    the interpreter's lock in every product, gets it back sooner from the other threads.
    """
    runner()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)


@st.cache_resource(ttl=2.0, show_spinner=False)
def tidy() -> None:
    """At most every two seconds, and not after looks at a run: let go of what pages have left behind."""
    gc.collect()


page = navigation.build()
prepare()
page.run()
streamlit_patches.page_drawn()
tidy()
