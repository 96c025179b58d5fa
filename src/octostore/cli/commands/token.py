"""Create, list and revoke tokens for a server, directly in the store or through the server with an admin token.

A token is shown once, when it is created. Its user sets OCTOSTORE_TOKEN to the token, or OCTOSTORE_TOKEN_FILE to a file
that contains it. `rotate` replaces the token you use. `generate` prints a line for `serve --tokens-file`, and needs no
store.
"""

import argparse
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import get_args

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.options import seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.checks import check_token_name
from octostore.core.errors import InvalidInput
from octostore.core.model import Scope
from octostore.core.names import check_prefix
from octostore.core.replies import TokenList, TokenView
from octostore.stores.permissions import check_file
from octostore.wire.responses import NewToken
from octostore.wire.token_files import write_token_file
from octostore.wire.tokens import is_well_formed, new_token

EXAMPLES = [
    "octostore token create ci --prefix deploy- --expires-in 90d",
    "octostore token create dashboard --scope read --to dashboard.token",
    "octostore token list",
    "octostore token revoke tok-635a275988e64d1f",
    'octostore token rotate --to "$OCTOSTORE_TOKEN_FILE"    # replace your own token',
    "octostore token generate ci --prefix deploy-    # a line to append to the file that serve --tokens-file names",
]
NOT_SHOWN_AGAIN = "This token is not shown again. Keep it where only its user can read it."
SCOPES: tuple[Scope, ...] = ("read", "claim")
HEADER = ("TOKEN", "NAME", "SCOPES", "PREFIX", "CREATED", "EXPIRES", "STATUS")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(_ACTIONS))
    create = actions.add_parser("create", help="create a token and show it", description="Create a token and show it.")
    _add_principal(create)
    create.add_argument(
        "--expires-in", type=seconds, metavar="S", help="how long it is valid, e.g. 90d (default: forever)"
    )
    shown = create.add_mutually_exclusive_group()
    shown.add_argument("--to", type=Path, metavar="FILE", help="write it to a new file that only you can read")
    shown.add_argument("--secret", action="store_true", help="print only the token, for a pipe")
    actions.add_parser("list", help="list all tokens", description="List all tokens, without their secrets.")
    revoke = actions.add_parser(
        "revoke", help="revoke a token", description="Revoke a token for good. It stops working within a second."
    )
    revoke.add_argument("token_id", metavar="TOKEN", help="its id, from `octostore token list`")
    rotate = actions.add_parser(
        "rotate",
        help="replace the token you use",
        description="Replace the token you use for a server. The old one stops working within a second.",
    )
    new = rotate.add_mutually_exclusive_group()
    new.add_argument("--to", type=Path, metavar="FILE", help="write the new token to this file, overwriting it")
    new.add_argument("--secret", action="store_true", help="print only the token, for a pipe")
    generate = actions.add_parser(
        "generate",
        help="print a line for `serve --tokens-file`",
        description="Print a new token as a line for `octostore serve --tokens-file`. It is not stored anywhere.",
    )
    _add_principal(generate)
    generate.add_argument("--secret", action="store_true", help="print only the token")


def _add_principal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="who will use it; the log shows this name")
    parser.add_argument(
        "--scope", action="append", choices=get_args(Scope), help="what it may do; repeatable (default: read and claim)"
    )
    parser.add_argument("--prefix", default="", metavar="P", help="only jobs whose names begin with this")


def run(arguments: Arguments, context: Context) -> int | None:
    return _ACTIONS[arguments.action](arguments, context)


def _create(arguments: Arguments, context: Context) -> None:
    if arguments.to is not None:
        check_file(str(arguments.to))
        if os.path.lexists(arguments.to):
            raise InvalidInput(
                "--to", f"names {arguments.to}, which already exists and was left unchanged; no token was created"
            )
    with context.address.open() as store:
        created = store.create_token(
            arguments.name,
            scopes=arguments.scope or SCOPES,
            prefix=arguments.prefix,
            expires_in=arguments.expires_in,
        )
    if arguments.secret and not context.console.is_json:
        context.console.print_lines(created.token or "")
    elif arguments.to is not None:
        _write_to_file(created, arguments.to, context)
    else:
        until = "forever" if created.expires_at is None else f"until {words.clock(created.expires_at)} UTC"
        where = f" for jobs named {created.prefix}…" if created.prefix else ""
        context.console.print_result(
            created,
            f"{created.name}'s token: {words.join_words(created.scopes, 'and')}{where}, valid {until}",
            f"  id     {created.token_id}",
            f"  token  {created.token}",
            NOT_SHOWN_AGAIN,
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


def _rotate(arguments: Arguments, context: Context) -> int:
    from octostore.client.http.rotation import rotate_token  # noqa: PLC0415  # only with a server
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    if not context.address.is_server:
        raise InvalidInput(
            "url",
            "must name a server (--url or OCTOSTORE_URL); your own file needs no token. To replace someone else's "
            "token, create a new one for them and revoke the old one",
        )
    if arguments.to is not None:
        _check_replaceable(arguments.to)
    server_url, old = find_server(context.address.url, None, None, allow_clear_text=False)
    rotated = rotate_token(server_url, old)
    name, token = rotated.github_username, rotated.token or ""
    if arguments.to is not None:
        try:
            write_token_file(arguments.to.resolve(), token)
        except OSError as error:
            context.console.print_message(f"{arguments.to} cannot be written: {error.strerror}; here is the token")
        else:
            done = f"wrote {name}'s new token to {arguments.to}; the old one no longer works"
            context.console.print_result({"name": name}, done)
            return exit_codes.SUCCESS
    done = f"rotated {name}'s token; the old one no longer works"
    if arguments.secret and not context.console.is_json:
        context.console.print_lines(token)
    elif server_url.left_by is not None and arguments.to is None and _is_left(context.address.url, token):
        where = "the server saved the new one where commands on this machine look for it"
        context.console.print_result({"name": name, "token": token}, f"{done}; {where}")
    else:
        context.console.print_result({"name": name, "token": token}, done, f"  token  {token}", NOT_SHOWN_AGAIN)
    return exit_codes.SUCCESS if arguments.to is None else exit_codes.BAD_INPUT


def _is_left(url: str | None, token: str) -> bool:
    """Whether the server's file has it now: if not, this is the last chance to show it."""
    from octostore.client.http.server_url import find_server  # noqa: PLC0415

    try:
        return find_server(url, None, None, allow_clear_text=False)[1] == token
    except InvalidInput:
        return False


def _check_replaceable(path: Path) -> None:
    check_file(str(path))
    if not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        problem = "there is no such folder, or you may not write there; nothing was rotated"
        raise InvalidInput("--to", f"({path}) cannot be written: {problem}")
    try:
        is_token = not os.path.lexists(path) or is_well_formed(path.read_text(errors="replace").strip())
    except OSError as error:
        raise InvalidInput("--to", f"({path}) cannot be read: {error.strerror}") from None
    if not is_token:
        raise InvalidInput("--to", f"({path}) does not contain a token and was left unchanged; nothing was rotated")


def _generate(arguments: Arguments, context: Context) -> None:
    check_token_name("name", arguments.name)
    check_prefix("prefix", arguments.prefix)
    for field in ("name", "prefix"):
        if any(letter.isspace() or letter == "#" for letter in getattr(arguments, field)):
            raise InvalidInput(field, "must not contain spaces or # in a tokens file")
    scopes, token = arguments.scope or SCOPES, new_token()
    document = {"name": arguments.name, "scopes": scopes, "prefix": arguments.prefix, "token": token}
    line = " ".join(filter(None, (arguments.name, ",".join(scopes), token, arguments.prefix)))
    context.console.print_result(document, token if arguments.secret else line)


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


_ACTIONS: dict[str, Callable[[Arguments, Context], int | None]] = {
    "create": _create,
    "list": _list,
    "revoke": _revoke,
    "rotate": _rotate,
    "generate": _generate,
}
