"""`octostore` whose server never cuts off what is under way when it stops."""

import sys

from octostore.cli.main import main
from octostore.server.connections import Connections

setattr(Connections, "abort", lambda _: None)  # noqa: B010  # mypy knows better than to allow it

sys.exit(main())
