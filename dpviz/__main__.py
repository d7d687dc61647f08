"""The shell: `python -m dpviz`, and the command `dpviz` of an installed package."""

import os
import sys


def main() -> None:
    """Run the command in the arguments and exit with 0 if it succeeds, 1 if a run failed, 2 for wrong use or settings,
    or 130 if it was interrupted."""
    for library in ("OPENBLAS", "OMP"):  # threads slow small products down; NumPy reads the variables at its import
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from dpviz.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
