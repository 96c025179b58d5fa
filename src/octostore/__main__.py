"""`python -m octostore`."""

import sys

from octostore.cli.main import main

sys.exit(main())
