"""The document that describes the API, made once for all tests of a process that look at it."""

from typing import Any

from octostore.server.openapi import build_document
from octostore.server.routes import ROUTES

DOCUMENT: dict[str, Any] = build_document(ROUTES)
