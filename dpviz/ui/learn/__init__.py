"""The page of lessons: the list of them, and one in four steps."""
