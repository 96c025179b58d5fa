"""Create, list and revoke tokens for a server, directly in the store or through the server with an admin token.

A token is shown once, when it is created. Its user sets OCTOSTORE_TOKEN, or OCTOSTORE_TOKEN_FILE to a file that
contains it.
"""

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import get_args

import msgspec

from octostore.cli import words
from octostore.cli.options import seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.core.model import Scope
from octostore.core.replies import TokenList, TokenView
from octostore.stores.permissions import check_file
from octostore.wire.responses import NewToken
from octostore.wire.token_files import write_token_file

EXAMPLES = [
    "octostore token create ci --prefix deploy- --expires-in 90d",
    "octostore token create dashboard --scope read --to dashboard.token",
    "octostore token list",
    "octostore token revoke tok-635a275988e64d1f",
]
HEADER = ("TOKEN", "NAME", "SCOPES", "PREFIX", "CREATED", "EXPIRES", "STATUS")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
    create = actions.add_parser("create", help="create a token and show it", description="Create a token and show it.")
    create.add_argument("name", metavar="NAME", help="who will use it; the log shows this name")
    create.add_argument(
        "--scope", action="append", choices=get_args(Scope), help="what it may do; repeatable (read and claim)"
    )
    create.add_argument("--prefix", default="", metavar="P", help="only jobs whose names begin with this")
    create.add_argument("--expires-in", type=seconds, metavar="S", help="how long it is valid, e.g. 90d (forever)")
    shown = create.add_mutually_exclusive_group()
    shown.add_argument("--to", type=Path, metavar="FILE", help="write it to a new file that only you can read")
    shown.add_argument("--secret", action="store_true", help="print only the token, for a pipe")
    actions.add_parser("list", help="list all tokens", description="List all tokens, without their secrets.")
    revoke = actions.add_parser(
        "revoke", help="revoke a token", description="Revoke a token. It stops working at once, for good."
    )
    revoke.add_argument("token_id", metavar="TOKEN", help="its id, from `octostore token list`")


def run(arguments: Arguments, context: Context) -> None:
    _ACTIONS[arguments.action](arguments, context)


def _create(arguments: Arguments, context: Context) -> None:
    if arguments.to is not None:
        check_file(str(arguments.to))
        if os.path.lexists(arguments.to):
            raise InvalidInput("--to", f"({arguments.to}) already exists and was left unchanged; no token was created")
    with context.address.open() as store:
        created = store.create_token(
            arguments.name,
            scopes=arguments.scope or ("read", "claim"),
            prefix=arguments.prefix,
            expires_in=arguments.expires_in,
        )
    if arguments.secret and not context.console.is_json:
        context.console.print_lines(created.token or "")
    elif arguments.to is not None:
        _write_to_file(created, arguments.to, context)
    else:
        until = "forever" if created.expires_at is None else f"until {words.clock(created.expires_at)} UTC"
        where = f" jobs named {created.prefix}…" if created.prefix else ""
        context.console.print_result(
            created,
            f"{created.name} may {', '.join(created.scopes)}{where}, {until}",
            f"  id     {created.token_id}",
            f"  token  {created.token}",
            "This token is not shown again. Keep it where only its user can read it.",
        )


def _write_to_file(created: NewToken, path: Path, context: Context) -> None:
    try:
        write_token_file(path, created.token or "")
    except OSError as error:
        with context.address.open() as store:
            store.revoke_token(created.token_id)  # its secret is lost
        raise InvalidInput("--to", f"({path}) cannot be written: {error.strerror}; no token was created") from None
    context.console.print_result(
        msgspec.structs.replace(created, token=None),
        f"wrote {created.name}'s token to {path}; use it with OCTOSTORE_TOKEN_FILE={path}",
    )


def _list(_arguments: Arguments, context: Context) -> None:
    with context.address.open_reader() as store:
        tokens = store.list_tokens()
    now = words.now()
    lines = ["no tokens; `octostore token create NAME` creates one"]
    if tokens:
        lines = context.console.table(HEADER, [_row(token, now) for token in tokens])
    context.console.print_result(TokenList(tokens=tokens), *lines)


def _revoke(arguments: Arguments, context: Context) -> None:
    with context.address.open() as store:
        token = store.revoke_token(arguments.token_id)
    context.console.print_result(token, f"revoked token {token.token_id} ({token.name})")


def _row(token: TokenView, now: datetime) -> tuple[str, ...]:
    is_expired = token.expires_at is not None and token.expires_at <= now
    return (
        token.token_id,
        token.name,
        ", ".join(token.scopes),
        token.prefix,
        words.ago(token.created_at, now),
        "never" if token.expires_at is None else words.clock(token.expires_at),
        "revoked" if token.revoked_at is not None else "expired" if is_expired else "valid",
    )


_ACTIONS = {"create": _create, "list": _list, "revoke": _revoke}
