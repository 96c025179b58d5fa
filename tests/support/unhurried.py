"""`octostore` whose server finishes all requests before it stops, however long they take."""

import sys

from octostore.cli.main import main
from octostore.server.connections import Connections

setattr(Connections, "abort", lambda _: None)  # noqa: B010  # mypy knows better than to allow it

sys.exit(main())
