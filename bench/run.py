"""Compare speeds in one run: `make bench`, or `python bench/run.py --quick` for a first look."""

import sys
from pathlib import Path

# Python adds this script's folder to the path, but `bench` is imported from the one above.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.main import main

if __name__ == "__main__":
    main()
