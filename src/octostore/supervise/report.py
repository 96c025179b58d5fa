"""How a command reports progress and checkpoints: over a socket that only its user can reach, so it needs no lease.

Inside the command, `octostore progress` and `octostore checkpoint` send one line of JSON and get one back.
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
REPLY_TIMEOUT_SECONDS = 30.0


class Report(msgspec.Struct, omit_defaults=True):
    """Progress, or a checkpoint if `checkpoint` is set."""

    note: str | None = None
    percent: float | None = None
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def can_report_for(job_id: str | None) -> bool:
    """Whether we run inside a command of `run` or `work` whose job is `job_id`; None matches any job."""
    return bool(os.environ.get(SOCKET_VARIABLE)) and job_id in {None, os.environ.get(JOB_VARIABLE)}


def send_report(report: Report) -> None:
    """Send it from inside a command (see `can_report_for`). Raises the store's error, if any."""
    if not isinstance(report.checkpoint, msgspec.UnsetType):
        # Checked here because the receiver stops reading an oversized line, and could not say so.
        check_bytes("checkpoint", bytes(report.checkpoint), CHECKPOINT_BYTES)
    failure = msgspec.json.decode(_exchange(os.environ[SOCKET_VARIABLE], msgspec.json.encode(report) + b"\n"))
    if failure:
        raise error_from_failure(msgspec.convert(failure, Failure, strict=False))


def _exchange(path: str, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_TIMEOUT_SECONDS)
        try:
            connection.connect(path)
            connection.sendall(line)
            with connection.makefile("rb") as replies:
                reply = replies.readline()
        except OSError as error:
            problem = f"no reply from the process that started this command: {error}"
            raise Unreachable(problem, reason="io") from error
    if not reply:
        raise Unreachable("the process that started this command closed the connection", reason="io")
    return reply
