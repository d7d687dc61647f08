"""dpviz: see what differential privacy costs an optimisation algorithm. Start with `streamlit run app.py`."""

import streamlit as st
from starlette.middleware import Middleware

from dpviz.ui import navigation, server, streamlit_patches
from dpviz.ui.server import phones

if __name__ == "__main__":  # Streamlit executes this file whenever it draws a page
    navigation.configure()
    page = navigation.build()
    server.prepare()
    page.run()
    streamlit_patches.finish_page(is_whole=True)
    server.tidy()
else:  # and imports it when the server starts
    streamlit_patches.apply()
    app = st.App(
        __file__,
        lifespan=server.lifespan,
        middleware=[Middleware(server.OwnOrigins), Middleware(phones.Phones), Middleware(server.Files)],
    )
