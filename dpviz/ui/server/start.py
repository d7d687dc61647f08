"""Work that the server does when it starts, so that pages need not wait for it."""

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.concurrency import run_in_threadpool

from dpviz.ui.experiment.run import runner

SWITCH = 0.0005  # seconds that one visitor's computation delays another's, each time that messages are sent


@st.cache_resource(show_spinner=False)
def prepare() -> None:
    """Start the workers and set up the interpreter, once per server.

    Imported objects are frozen: looking at them in every garbage collection would cost 45-80 ms.
    """
    runner()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()


@st.cache_resource(ttl=2.0, show_spinner=False)
def tidy() -> None:
    """Collect the garbage that pages leave behind; at most every two seconds, and not after polls of a run."""
    gc.collect()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Prepare everything that pages need before the server answers, so that the first visitor does not wait."""
    await run_in_threadpool(prepare)
    yield
