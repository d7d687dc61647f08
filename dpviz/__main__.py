"""The shell: `python -m dpviz`, and the command `dpviz` of an installed package."""

import os
import sys


def main() -> None:
    """Do what the arguments say, and end with 0, or 1 (a run failed), 2 (wrong use or settings), 130 (interrupted)."""
    for library in ("OPENBLAS", "OMP"):  # small products in many threads get in each other's way; NumPy reads it once
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from dpviz.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
