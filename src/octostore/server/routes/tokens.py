"""Tokens: create, list, rotate and revoke them."""

from octostore.core.moments import to_datetime
from octostore.core.replies import PrincipalView
from octostore.server import auth
from octostore.server.calls import Call, question_route
from octostore.server.examples import NOW
from octostore.server.http import Response
from octostore.server.router import Route
from octostore.stores.ids import new_token_id
from octostore.wire import bodies
from octostore.wire.responses import NewToken, RotatedToken, extend_view
from octostore.wire.tokens import new_token, token_digest

TAG = "tokens"
CI = {"name": "ci", "prefix": "deploy-", "expires_at": None}


async def create_token(call: Call) -> Response:
    body: bodies.TokenBody = call.body
    body.token_id = new_token_id() if body.token_id is None else body.token_id
    token = new_token() if body.digest is None else None
    command = call.command(**({"digest": token_digest(token)} if token else {}))
    return Response(extend_view(NewToken, await call.services.store.execute(command), token=token), 201)


async def revoke_token(call: Call) -> Response:
    view = await call.services.store.execute(call.command())
    call.services.on_changed_tokens({view.token_id})
    return Response(view)


async def who_am_i(call: Call) -> Response:
    principal = call.principal
    expires_at = principal.expires_at_ms
    return Response(
        PrincipalView(
            name=principal.name,
            scopes=sorted(principal.scopes),
            prefix=principal.prefix,
            expires_at=None if expires_at is None else to_datetime(expires_at),
        )
    )


async def rotate_token(call: Call) -> Response:
    principal, services = call.principal, call.services
    digest = call.body.values()["digest"]
    view, token = await auth.rotate(services.store, principal, digest, services.admin_file)
    services.on_changed_tokens({view.token_id})
    return Response(
        RotatedToken(
            token=token,
            user_id=services.pseudonym("user", principal.name),
            github_username=view.name,
            namespace=view.prefix or view.name,
        )
    )


ROUTES = [
    Route.for_operation(
        "create_token",
        handler=create_token,
        summary="Create a token",
        description="The token is shown only in this response; the store keeps only its SHA-256.",
        responses={201: NewToken},
        codes={409: ("conflict",)},
        example={
            "body": {"name": "ci", "scopes": ["read", "claim"], "prefix": "deploy-"},
            "response": CI,
        },
    ),
    question_route(
        "list_tokens",
        summary="List all tokens, without their secrets",
        example={"first": ["create_token"], "response": {"tokens": [CI]}},
    ),
    Route.for_operation(
        "revoke_token",
        handler=revoke_token,
        summary="Revoke a token for good, and end its streams and waiting claims",
        codes={404: ("not_found",)},
        example={
            "params": {"token_id": "$TOKEN_ID"},
            "first": ["create_token"],
            "response": {**CI, "revoked_at": NOW},
        },
    ),
    Route.for_operation(
        "who_am_i",
        handler=who_am_i,
        summary="Get your token's principal, and what the token may do",
        example={"response": {"name": "admin", "scopes": ["admin", "claim", "read"], "prefix": "", "expires_at": None}},
    ),
    Route.for_operation(
        "rotate_token",
        handler=rotate_token,
        summary="Replace your own token; the old one stops working",
        responses={200: RotatedToken},
        codes={409: ("conflict",)},
        example={
            "token": "$OTHER_TOKEN",
            "first": ["create_token"],
            "response": {"github_username": "ci", "namespace": "deploy-"},
        },
    ),
]
