"""Commands for a shell: run, sweep and plan experiments, keep results. No streamlit, no plotly."""

WRONG, INTERRUPTED = 2, 130  # exit codes: wrong use or settings; Ctrl+C
