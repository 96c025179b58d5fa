"""Run many commands in one call, in order.

Each line of stdin is one command: a JSON object with the command's name in `command`, as in `POST /batch`. Up to 1,000
commands are one transaction. A refused command changes nothing and does not affect the others. The exit code is that of
the first command that did not succeed.
"""

import argparse
import sys
from typing import Any

from octostore.cli import exits, words
from octostore.cli.command import Arguments, Context
from octostore.cli.failing import exit_code_of
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
        raise InvalidInput("stdin", f"is empty: write one command per line, such as {EXAMPLE}")
    with context.place.open() as store:
        answers = store.batch(documents, atomic=arguments.atomic)
    told = BatchResponse(answers=[command_response(answer) for answer in answers])
    rows = [
        (document["command"], _about(document), _gist(answer))
        for document, answer in zip(documents, answers, strict=True)
    ]
    context.console.answer(told, *context.console.table(("COMMAND", "ABOUT", "ANSWER"), rows))
    return next((code for code in map(_exit_code, answers) if code != exits.DID), exits.DID)


def _read(number: int, line: bytes) -> dict[str, Any]:
    document = decode_strictly(f"line {number}", line, JSON_DEPTH + 1)
    if not isinstance(document, dict) or not isinstance(document.get("command"), str):
        raise InvalidInput(f"line {number}", f"is not a command such as {EXAMPLE}")
    return document


def _about(document: dict[str, Any]) -> str:
    return next((str(document[name]) for name in ("job_id", "session_id", "queue") if name in document), "")


def _gist(answer: Any) -> str:
    if isinstance(answer, OctoStoreError):
        return words.gist(str(answer))
    word = getattr(answer, "status", None) or getattr(answer, "outcome", None)
    return str(word or "ok")


def _exit_code(answer: Any) -> int:
    if isinstance(answer, OctoStoreError):
        return exit_code_of(answer)
    return exits.CLAIMS[answer.status] if isinstance(answer, ClaimReply) else exits.DID
