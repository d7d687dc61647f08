"""Experiments: algorithms, plans from public facts, runs, and the traces and summaries of runs."""
