"""Lessons: two settings that differ in one control, a question, and an answer that is measured in runs."""
