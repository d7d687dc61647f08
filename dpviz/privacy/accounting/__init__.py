"""Accountants: events in, privacy spent out, in every currency."""
