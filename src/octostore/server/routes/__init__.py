"""All routes, by what they are about. The order is that of the API page."""

from octostore.server.routes.events import ROUTES as EVENTS
from octostore.server.routes.jobs import ROUTES as JOBS
from octostore.server.routes.locks import ROUTES as LOCKS
from octostore.server.routes.operations import ROUTES as OPERATIONS
from octostore.server.routes.queues import ROUTES as QUEUES
from octostore.server.routes.sessions import ROUTES as SESSIONS
from octostore.server.routes.tokens import ROUTES as TOKENS

ROUTES = [*JOBS, *QUEUES, *SESSIONS, *EVENTS, *LOCKS, *TOKENS, *OPERATIONS]
