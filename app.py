"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import gc
import sys

import streamlit as st

from dpviz.ui import navigation

navigation.configure()


@st.cache_resource
def freeze() -> None:
    """Once per server: spare every rerun and every run a wait.

    Streamlit collects garbage after every rerun; what was imported need not be looked at each time (45-80 ms). And
    NumPy, which gives up the interpreter's lock in every product, gets it back sooner from the other threads.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)


page = navigation.build()
freeze()
page.run()
