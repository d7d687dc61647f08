"""dpviz: see what differential privacy costs an optimisation algorithm."""

__version__ = "0.1.0"
