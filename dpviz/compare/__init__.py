"""Runs that are kept beside others: in links and files, on common axes."""
