"""Uploaded files: how they are read, what is declared of their columns, and tables made of them."""
