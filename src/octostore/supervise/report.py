"""How a command says what it is doing: over a socket that only its user can reach, so that it needs no lease.

`octostore progress` and `octostore checkpoint`, run by the command, send one line of JSON and get one back.
"""

import os
import socket

import msgspec

from octostore.core.errors import Unreachable
from octostore.core.limits import CHECKPOINT_BYTES, check_bytes
from octostore.wire.failures import Failure, error_from_failure

JOB_VARIABLE = "OCTOSTORE_JOB"
FENCING_VARIABLE = "OCTOSTORE_FENCING_TOKEN"
SOCKET_VARIABLE = "OCTOSTORE_RUN_SOCKET"
CHECKPOINT_VARIABLE = "OCTOSTORE_CHECKPOINT_FILE"
PREVIOUS_VARIABLE = "OCTOSTORE_PREVIOUS"
ANSWER_SECONDS = 30.0


class Report(msgspec.Struct, omit_defaults=True):
    """Progress, or a checkpoint where `checkpoint` is given."""

    note: str | None = None
    percent: float | None = None
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def is_about_command(job_id: str | None) -> bool:
    """Whether we are inside a command that `run` or `work` has started, and what is said of `job_id` is for its claim.

    None is whatever is at hand.
    """
    return bool(os.environ.get(SOCKET_VARIABLE)) and job_id in {None, os.environ.get(JOB_VARIABLE)}


def send_report(report: Report) -> None:
    """From within a command: see `is_about_command`. Raises what the store said to it."""
    if not isinstance(report.checkpoint, msgspec.UnsetType):
        # Here already: of more than it is ready to read, the other side would not even say that it is too much.
        check_bytes("checkpoint", bytes(report.checkpoint), CHECKPOINT_BYTES)
    failure = msgspec.json.decode(_exchange(os.environ[SOCKET_VARIABLE], msgspec.json.encode(report) + b"\n"))
    if failure:
        raise error_from_failure(msgspec.convert(failure, Failure, strict=False))


def _exchange(path: str, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(path)
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                answer = answers.readline()
        except OSError as error:
            raise Unreachable(f"the process that started this command does not answer: {error}", reason="io") from error
    if not answer:
        raise Unreachable("the process that started this command closed the connection", reason="io")
    return answer
