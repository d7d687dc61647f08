"""Accounting: the privacy that events spend, in every currency and by every method of composition."""
