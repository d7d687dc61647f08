"""Sweeps: one or two settings of an experiment at several values, their results, the laws that fit these."""
