"""Audits: attacks on claims of privacy, the cases that they run on, and implementations with mistakes on purpose."""
