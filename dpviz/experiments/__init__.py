"""Experiments: algorithms, plans from public facts, the runs themselves, and what is recorded and summarised of
them."""
