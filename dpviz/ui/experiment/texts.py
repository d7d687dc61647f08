"""The words of the pages of the families: the same for all of them."""

from dpviz import resources

__getattr__ = resources.texts(__package__)
