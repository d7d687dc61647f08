"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import gc
import sys

import streamlit as st

from dpviz.ui import navigation
from dpviz.ui.experiment.run import runner

navigation.configure()


@st.cache_resource
def prepare() -> None:
    """Once per server: start its workers, and spare every rerun a wait.

    Streamlit collects garbage after every rerun; what was imported need not be looked at each time (45-80 ms). And
    NumPy, which gives up the interpreter's lock in every product, gets it back sooner from the other threads.
    """
    runner()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)


page = navigation.build()
prepare()
page.run()
