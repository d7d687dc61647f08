"""The web server around the pages, which Streamlit starts: `app.py` names what is here."""
