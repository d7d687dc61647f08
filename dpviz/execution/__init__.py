"""Who computes what when: the runner and its slots, workers, the store, a cluster, readers of files."""
