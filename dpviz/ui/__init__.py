"""The only package that imports Streamlit: menu, widgets from declared ranges, run panel, downloads."""
