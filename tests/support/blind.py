"""`octostore` that relies on PostgreSQL's notifications, and does not poll."""

import sys

from octostore.cli.main import main
from octostore.stores.postgres import backend

backend.LOOK_SECONDS = 600.0

sys.exit(main())
