"""Tests that releases are as declared, and their likelihood on another data set."""
