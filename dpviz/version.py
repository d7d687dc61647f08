"""The version of dpviz, for modules that must not import the public names."""

VERSION = "0.1.0"
