"""Tokens: who may do what."""

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.moments import to_datetime
from octostore.core.replies import PrincipalView, TokenList, TokenView
from octostore.server import auth
from octostore.server.calls import Call
from octostore.server.examples import NOW
from octostore.server.http import Answer
from octostore.server.router import Route
from octostore.stores.ids import new_token_id
from octostore.wire import bodies
from octostore.wire.answers import NewToken, RotatedToken
from octostore.wire.tokens import digest_of, new_token

TAG = "tokens"
CI = {"name": "ci", "prefix": "deploy-", "expires_at": None}


async def create_token(call: Call) -> Answer:
    call.principal.require_everything()
    body: bodies.TokenBody = call.body
    digest = bodies.digest_from(body.digest)
    token = new_token() if digest is None else None
    command = c.CreateToken(
        token_id=new_token_id() if body.token_id is None else body.token_id,
        name=body.name,
        digest=digest_of(token) if token else digest or b"",
        scopes=tuple(body.scopes),
        prefix=body.prefix,
        expires_in=body.expires_in_seconds,
        principal=call.principal.name,
    )
    view = await call.execute(command)
    return Answer(NewToken.of(view, token), 201)


async def list_tokens(call: Call) -> Answer:
    call.principal.require_everything()
    return Answer(await call.services.store.ask(q.ListTokens()))


async def revoke_token(call: Call) -> Answer:
    call.principal.require_everything()
    command = c.RevokeToken(token_id=call.request.params["token_id"], principal=call.principal.name)
    view = await call.execute(command)
    call.services.auth.forget()
    call.services.feed.wake()  # for its open streams to end
    return Answer(view)


async def who_am_i(call: Call) -> Answer:
    principal = call.principal
    expires_at = principal.expires_at_ms
    return Answer(
        PrincipalView(
            name=principal.name,
            scopes=sorted(principal.scopes),
            prefix=principal.prefix,
            expires_at=None if expires_at is None else to_datetime(expires_at),
        )
    )


async def rotate_token(call: Call) -> Answer:
    body: bodies.RotateBody = call.body
    principal, services = call.principal, call.services
    digest = bodies.digest_from(body.digest)
    view, token = await auth.rotate(services.store, principal, digest, services.admin_file)
    services.auth.forget()
    services.feed.wake()
    return Answer(
        RotatedToken(
            token=token,
            user_id=services.pseudonym("user", principal.name),
            github_username=view.name,
            namespace=view.prefix or view.name,
        )
    )


ROUTES = [
    Route(
        method="POST",
        path="/tokens",
        handler=create_token,
        tag=TAG,
        scope="admin",
        summary="Make a token",
        description="It is shown this once; only its SHA-256 is kept.",
        body=bodies.TokenBody,
        answers={201: NewToken},
        codes={409: ("conflict",)},
        example={
            "body": {"name": "ci", "scopes": ["read", "claim"], "prefix": "deploy-"},
            "answer": CI,
        },
    ),
    Route(
        method="GET",
        path="/tokens",
        handler=list_tokens,
        tag=TAG,
        scope="admin",
        summary="All tokens that were made, without their secrets",
        answers={200: TokenList},
        example={"first": ["create_token"], "answer": {"tokens": [CI]}},
    ),
    Route(
        method="DELETE",
        path="/tokens/{token_id}",
        handler=revoke_token,
        tag=TAG,
        scope="admin",
        summary="End a token for good, and the streams that it has open",
        answers={200: TokenView},
        codes={404: ("not_found",)},
        example={
            "params": {"token_id": "$TOKEN_ID"},
            "first": ["create_token"],
            "answer": {**CI, "revoked_at": NOW},
        },
    ),
    Route(
        method="GET",
        path="/auth/whoami",
        handler=who_am_i,
        tag=TAG,
        scope=None,
        summary="Whose token this is, and what it may do",
        answers={200: PrincipalView},
        example={"answer": {"name": "admin", "scopes": ["admin", "claim", "read"], "prefix": "", "expires_at": None}},
    ),
    Route(
        method="POST",
        path="/auth/token/rotate",
        handler=rotate_token,
        tag=TAG,
        scope=None,
        summary="Replace one's own token; the old one stops working",
        body=bodies.RotateBody,
        answers={200: RotatedToken},
        codes={409: ("conflict",)},
        example={
            "token": "$OTHER_TOKEN",
            "first": ["create_token"],
            "answer": {"github_username": "ci", "namespace": "deploy-"},
        },
    ),
]
