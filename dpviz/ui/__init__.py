"""The only package that imports Streamlit: menu, widgets from declared ranges, run panel, downloads."""

import os

# Workers of runs compute products of matrices in one thread each. This gives figures and advice, which the server's own
# process computes, one thread as well. The libraries read the variables when NumPy is first imported; Streamlit itself
# does not import it before a page does.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
