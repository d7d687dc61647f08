"""The only package that imports Streamlit: menu, widgets from declared ranges, run panel, downloads."""

import os

# As in the workers: with several threads, products of matrices differ in their last digits, and so would a run that is
# computed here. The libraries read it when NumPy is first imported, which Streamlit does not do before a page asks.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
