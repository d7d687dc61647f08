"""Counts, sums, means, histograms and quantiles: their errors, and how to split a budget."""
