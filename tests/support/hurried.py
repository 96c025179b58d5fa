"""`octostore` with short timeouts for a server that does not respond."""

import sys

from octostore.cli.main import main
from octostore.client.http import port

vars(port)["GIVE_UP_SECONDS"] = 1.0

sys.exit(main())
