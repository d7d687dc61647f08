"""Comparison of several runs on common axes, and the pins that keep runs in links and files."""
