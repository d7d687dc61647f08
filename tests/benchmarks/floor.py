"""What Streamlit itself costs: a page with as many controls as a family's, of which a move draws eight and a chart."""

import streamlit as st

with st.sidebar:
    for number in range(30):
        st.number_input(f"Number {number}", value=float(number))


@st.fragment
def screen() -> None:
    """Four sliders with their numbers."""
    for number in range(4):
        st.number_input(f"Lead {number}", value=1.0)
        st.select_slider(f"Slider {number}", [1.0, 2.0, 3.0, 4.0])
    st.caption("A sentence.")


screen()
