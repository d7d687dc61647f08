"""A lesson on noise that momentum adds up."""

from dpviz.lessons.lesson import Ends, load

LESSONS = (load(__package__, "memory", measure=Ends("Momentum")),)
