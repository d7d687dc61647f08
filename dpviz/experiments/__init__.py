"""What a run is, and running it: algorithms, plans, experiments, traces and the background runner."""
