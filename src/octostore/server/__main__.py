"""`python -m octostore.server`."""

import sys

from octostore.server.listen import main

sys.exit(main())
