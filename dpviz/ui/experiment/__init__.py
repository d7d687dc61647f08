"""What any algorithm page consists of: choose, plan, run, show."""

from dpviz import resources

texts = resources.Texts(__package__)
