"""Execution: the runner and its slots, worker processes, the store, a cluster, readers of files."""
