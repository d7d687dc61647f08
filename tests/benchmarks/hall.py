"""The dashboard with addresses by which a test acts as the lecturer: it opens a class, asks, reveals and ends it."""

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import app as dashboard
from dpviz.lessons.classroom import ROOMS, Choice
from dpviz.ui import server
from dpviz.ui.server import phones

QUESTION = Choice("How much better?", ("Not at all", "2 to 10 times", "More"))


async def act(request: Request) -> JSONResponse:
    """Do one thing, and return the class's code and key, its phones, and the number of answers to the last question."""
    what = request.path_params["what"]
    room = ROOMS.open() if what == "open" else ROOMS.with_key(request.query_params["key"])
    assert room is not None
    if what == "ask":
        room.ask(Choice(f"{len(room.questions)}. {QUESTION.title}", QUESTION.options))
    elif what == "reveal":
        room.reveal(room.questions[-1], {"right": 1, "counts": [1, 2, 3]})
    elif what == "end":
        room.end()
    answers = len(room.questions[-1].answers) if room.questions else 0
    return JSONResponse({"code": room.code, "key": room.key, "phones": room.phones, "answers": answers})


middleware = [Middleware(server.OwnOrigins), Middleware(phones.Phones), Middleware(server.Files)]
app = st.App(
    dashboard.__file__, lifespan=server.lifespan, middleware=middleware, routes=[Route("/_lecturer/{what}", act)]
)
