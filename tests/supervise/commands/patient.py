"""`octostore` that tries to reach a server for ten minutes, longer than any test waits."""

import sys

from octostore.cli.main import main
from octostore.client.http import port

vars(port).update(GIVE_UP_SECONDS=600.0, RESPONSE_SECONDS=600.0)

sys.exit(main())
