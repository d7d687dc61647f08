"""Work that the server does at its start, so that pages need not wait for it, and its collection of garbage."""

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.concurrency import run_in_threadpool

from dpviz.ui.experiment.run import runner

# Seconds after which Python lets another thread run. A thread that sends messages to a visitor waits so long, at most,
# for one that computes for another visitor.
SWITCH = 0.0005


@st.cache_resource(show_spinner=False)
def prepare() -> None:
    """Start the workers of runs and set up the interpreter, once per server.

    Imported objects are excluded from garbage collections, each of which would otherwise spend 45-80 ms on them.
    """
    runner()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()


@st.cache_resource(ttl=2.0, show_spinner=False)
def tidy() -> None:
    """Collect the garbage of drawn pages, at most every two seconds; a poll of a run does not call it."""
    gc.collect()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Prepare everything that pages need before the server answers, so that the first visitor does not wait."""
    await run_in_threadpool(prepare)
    yield
