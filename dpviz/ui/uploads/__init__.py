"""A visitor's own file: how it is read, declared and turned into a table."""
