"""Audits of mechanisms: tests that releases are as declared, and the likelihood of outputs on another data set."""
