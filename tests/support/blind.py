"""`octostore` that hears of what others write to PostgreSQL by being told, and does not look by itself."""

import sys

from octostore.cli.main import main
from octostore.stores.postgres import backend

backend.LOOK_SECONDS = 600.0

sys.exit(main())
