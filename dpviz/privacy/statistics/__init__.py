"""Planned statistics of a table (counts, sums, means, histograms, quantiles): their errors and shares of a budget."""
