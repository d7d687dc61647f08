"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import streamlit as st

from dpviz.ui import navigation, streamlit_patches
from dpviz.ui.server import files, origins, phones, start

if __name__ == "__main__":  # Streamlit executes this file whenever it draws a page
    navigation.configure()
    page = navigation.build()
    start.prepare()
    page.run()
    streamlit_patches.page_drawn()
    start.tidy()
else:  # and imports it when the server starts
    streamlit_patches.apply()
    app = st.App(
        __file__, lifespan=start.lifespan, middleware=[*origins.MIDDLEWARE, *phones.MIDDLEWARE, *files.MIDDLEWARE]
    )
