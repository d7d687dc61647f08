"""The panel for a file whose rows belong to users."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable, UserUpload
from dpviz.problems.tuning.model_tuning import KernelMachine
from tests.confirming import confirmed


def panel() -> None:
    import streamlit as st

    from dpviz.ui.uploads import table

    st.session_state["dataset"], st.session_state["tables"] = table.uploaded_with_users("p")


@pytest.fixture
def app() -> AppTest:
    x = np.arange(120.0)
    columns = {"age": x % 7, "height": x % 11, "sick": np.where(x % 3 == 0, "yes", "no"), "who": x % 30}
    app = AppTest.from_function(panel, default_timeout=300).run()
    app.file_uploader[0].upload("table.csv", pd.DataFrame(columns).to_csv(index=False).encode(), "text/csv")
    confirmed(app.run())
    app.selectbox(key="p_users_upload_target").set_value("sick").run()
    assert not app.exception
    return app


def test_rows_of_a_user_are_protected_together_where_a_column_names_the_user(app: AppTest) -> None:
    assert "who" in app.multiselect[0].value
    app.button(key="p_users_upload_fill").click().run()
    alone = app.session_state["dataset"]
    assert type(alone) is UploadedTable and alone.n == 120
    assert alone.from_data == tuple(("bounds", name) for name in alone.names)
    app.selectbox(key="p_users_upload_user").set_value("who").run()
    data, tables = app.session_state["dataset"], app.session_state["tables"]
    assert isinstance(data, UserUpload) and (data.user, data.users, data.n) == ("who", 30, 120)
    assert "who" not in app.multiselect[0].value and data.identity != alone.identity
    assert any("30 users" in caption.value for caption in app.caption)
    box = KernelMachine(data=data, model="ridge")
    assert box.build(tables).facts.n == 15
    app.selectbox(key="p_users_upload_user").set_value("age").run()
    assert "names 7 of them" in app.error[0].value
