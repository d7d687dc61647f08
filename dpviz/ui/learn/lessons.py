"""All lessons, in the groups in which the page lists them."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from dpviz.lessons import budget_lessons
from dpviz.lessons.lesson import Lesson
from dpviz.ui import families

GUARANTEES = "What a guarantee means"


@cache
def grouped() -> Mapping[str, tuple[Lesson, ...]]:
    """The lessons on guarantees, and those of every family that has any, by its title."""
    modules = {family.title: f"dpviz.families.{family.name}.lessons" for family in families.FAMILIES}
    found = {title: import_module(name).LESSONS for title, name in modules.items() if find_spec(name) is not None}
    return {GUARANTEES: budget_lessons.LESSONS, **found}


def named(slug: str) -> Lesson | None:
    """The lesson with this address, if there is one."""
    return next((lesson for lesson in ordered() if lesson.slug == slug), None)


def ordered() -> tuple[Lesson, ...]:
    """All lessons, in their order."""
    return tuple(lesson for lessons in grouped().values() for lesson in lessons)


def following(lesson: Lesson) -> Lesson | None:
    """The one after it, if it is not the last."""
    known = ordered()
    place = known.index(lesson) + 1
    return known[place] if place < len(known) else None
