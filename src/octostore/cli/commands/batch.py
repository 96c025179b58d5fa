"""Run many commands in one call, in order.

Each line of stdin is one command: a JSON object with the command's name in `command`, as in `POST /batch`. Up to 1,000
commands run in one transaction; for more, use --no-atomic. A refused command changes nothing and does not affect the
others. The exit code is that of the first command that did not succeed.
"""

import argparse
import sys
from typing import Any

from octostore.cli import exit_codes, words
from octostore.cli.failures import exit_code_of
from octostore.cli.subcommands import Arguments, Context
from octostore.core.encoding import decode_strictly
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.core.limits import JSON_DEPTH
from octostore.core.replies import ClaimReply
from octostore.wire.batches import BatchResponse, command_response

EXAMPLE = '{"command": "claim_job", "job_id": "build-7"}'
EXAMPLES = [
    "cat commands.jsonl | octostore batch",
    """echo '{"command": "claim_job", "job_id": "build-7", "owner": "me"}' | octostore batch --json""",
    "cat commands.jsonl | octostore batch --no-atomic  # others may write in between",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-atomic", dest="atomic", action="store_false", help="use as many transactions as needed, instead of one"
    )


def run(arguments: Arguments, context: Context) -> int:
    documents = [_read(number, line) for number, line in enumerate(sys.stdin.buffer, 1) if line.strip()]
    if not documents:
        raise InvalidInput("stdin", f"is empty: write one command per line, for example {EXAMPLE}")
    with context.address.open() as store:
        replies = store.batch(documents, atomic=arguments.atomic)
    asked = list(zip(documents, replies, strict=True))
    response = BatchResponse(answers=[command_response(document["command"], reply) for document, reply in asked])
    rows = [(document["command"], _target(document), _result(reply)) for document, reply in asked]
    context.console.print_result(response, *context.console.table(("COMMAND", "TARGET", "RESULT"), rows))
    return next((code for code in map(_exit_code, replies) if code != exit_codes.SUCCESS), exit_codes.SUCCESS)


def _read(number: int, line: bytes) -> dict[str, Any]:
    document = decode_strictly(f"line {number}", line, JSON_DEPTH + 1)
    if not isinstance(document, dict) or not isinstance(document.get("command"), str):
        raise InvalidInput(f"line {number}", f"is not a command; write, for example, {EXAMPLE}")
    return document


def _target(document: dict[str, Any]) -> str:
    return next((str(document[name]) for name in ("job_id", "session_id", "queue") if name in document), "")


def _result(reply: Any) -> str:
    if isinstance(reply, OctoStoreError):
        return words.one_line(str(reply))
    word = getattr(reply, "status", None) or getattr(reply, "outcome", None)
    return str(word or "ok")


def _exit_code(reply: Any) -> int:
    if isinstance(reply, OctoStoreError):
        return exit_code_of(reply)
    return exit_codes.CLAIMS[reply.status] if isinstance(reply, ClaimReply) else exit_codes.SUCCESS
