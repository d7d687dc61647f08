"""dpviz: see what differential privacy costs an optimisation algorithm."""

import sys

from dpviz.renamed import Finder

__version__ = "0.1.0"

sys.meta_path.append(Finder())
