"""Speed, side by side, in one run: `make bench`, or `python bench/run.py --quick` for a first look."""

import sys
from pathlib import Path

# A script's own folder is on the path, and not the one that `bench` is in.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.main import main

if __name__ == "__main__":
    main()
