"""All routes, by what they are about. The order is that of the API page."""

import msgspec

from octostore.server.routes import batches, events, jobs, locks, mcp, operations, page, queues, sessions, tokens

_MODULES = [jobs, queues, sessions, batches, events, locks, mcp, tokens, page, operations]
ROUTES = [msgspec.structs.replace(route, tag=module.TAG) for module in _MODULES for route in module.ROUTES]
TAGS = {module.TAG: (module.__doc__ or "").strip() for module in _MODULES}
"""What each group of routes is about."""
