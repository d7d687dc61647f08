"""The parts of the budget planner, and the choices that a lesson makes there."""

from dpviz import resources

texts = resources.Texts(__package__)

# What is released, by value, and the titles of the two sections that set it.
ABOUT = {"statistics": "Statistics", "steps": "T noisy steps"}
ANALYSES, SOLVED = "Your analyses", "Solve for"
