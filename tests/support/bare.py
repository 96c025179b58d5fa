"""`octostore` as installed by `octostore[server]`: packages of other extras cannot be imported."""

import sys

for name in ("aiohttp", "anyio", "httpx2", "mcp", "mcp_types", "psycopg", "pydantic", "starlette"):
    sys.modules[name] = None  # type: ignore[assignment]  # as Python has it for what is not to be found

from octostore.cli.main import main  # noqa: E402

sys.exit(main())
