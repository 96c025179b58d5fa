"""The OpenAPI document, built once per test process."""

from typing import Any

from octostore.server.openapi import build_document
from octostore.server.routes import ROUTES

DOCUMENT: dict[str, Any] = build_document(ROUTES)
