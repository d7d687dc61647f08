"""One or two settings of an experiment varied: what can be, what was found, the laws that fit it."""
