"""The web server around the pages, which Streamlit starts: `app.py` names its middleware and its start."""
