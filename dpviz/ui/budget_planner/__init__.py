"""The parts of the budget planner."""
