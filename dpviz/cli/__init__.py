"""The library's face in a shell: run, sweep and plan experiments, keep results. No streamlit, no plotly."""
