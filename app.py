"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import gc

import streamlit as st

from dpviz.ui import navigation

navigation.configure()


@st.cache_resource
def freeze() -> None:
    """Streamlit collects garbage after every rerun; what was imported need not be looked at each time (45-80 ms)."""
    gc.collect()
    gc.freeze()


page = navigation.build()
freeze()
page.run()
