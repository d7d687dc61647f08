"""What the server does when it starts, and spares the pages."""

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.concurrency import run_in_threadpool

from dpviz.ui.experiment.run import runner

SWITCH = 0.0005  # seconds that one visitor's computation keeps another's waiting, each time that messages are sent


@st.cache_resource(show_spinner=False)
def prepare() -> None:
    """Once per server: start its workers, and spare every rerun a wait.

    What was imported need not be looked at each time that garbage is collected (45-80 ms).
    """
    runner()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()


@st.cache_resource(ttl=2.0, show_spinner=False)
def tidy() -> None:
    """At most every two seconds, and not after looks at a run: let go of what pages have left behind."""
    gc.collect()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """The server answers when what every page needs is there, so that the first visitor does not wait for it."""
    await run_in_threadpool(prepare)
    yield
