"""The page that compares pinned runs of any kind."""
