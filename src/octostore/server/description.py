"""What the server offers, for machines and for people."""

from functools import cache

from octostore.server.http import encode


@cache
def description() -> tuple[bytes, bytes]:
    """The OpenAPI document and the API page. Made when somebody asks: it takes longer than the rest of a start."""
    from octostore.server.api_page import render_page  # noqa: PLC0415
    from octostore.server.openapi import document_of  # noqa: PLC0415
    from octostore.server.routes import ROUTES  # noqa: PLC0415

    document = document_of(ROUTES)
    return encode(document), render_page(ROUTES, document).encode()
