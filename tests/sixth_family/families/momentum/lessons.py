"""A lesson on noise that momentum adds up."""

from dpviz.lessons.lesson import FinalMedian, load_lesson

LESSONS = (load_lesson(__package__, "memory", measure=FinalMedian("Momentum")),)
