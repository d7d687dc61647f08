"""Figure builders: pure functions from plans and traces to plotly figures; no streamlit, no state."""
