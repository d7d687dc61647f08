"""The only package that imports Streamlit: menu, widgets from declared ranges, run panel, downloads."""

import os

# Runs take one thread for products of matrices by themselves; here figures and advice do, too. The libraries read it
# when NumPy is first imported, which Streamlit does not do before a page asks.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
