"""Receive a command's reports and pass them on to the store: see `report`."""

import os
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import msgspec

from octostore.client.hold import HeldClaim
from octostore.core.encoding import encode_any
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.supervise.report import CHECKPOINT_VARIABLE, SOCKET_VARIABLE, Report
from octostore.wire.failures import failure_from_error

SOCKET_PATH_BYTES = 100  # the longest socket path that works on every system
REPORT_BYTES = 1_048_576


class ReportServer:
    """While the block runs, the command can report; `environment` says where."""

    def __init__(self, claim: HeldClaim) -> None:
        self._claim = claim
        self._folder = _private_folder()
        self._socket = os.path.join(self._folder, "socket")
        self._file = os.path.join(self._folder, "checkpoint.json")
        if claim.last_checkpoint is not None:
            self._save(encode_any("checkpoint", claim.last_checkpoint))
        self._server = _Server(self._socket, self._accept)

    @property
    def environment(self) -> dict[str, str]:
        return {SOCKET_VARIABLE: self._socket, CHECKPOINT_VARIABLE: self._file}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="octostore-reports", daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes it at once; it polls only twice a second
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, report: Report) -> None:
        if isinstance(report.checkpoint, msgspec.UnsetType):
            self._claim.progress(report.note, percent=report.percent)
            return
        self._claim.checkpoint(msgspec.json.decode(report.checkpoint))
        self._save(report.checkpoint)

    def _save(self, checkpoint: bytes) -> None:
        """For the command to read: all of it or none."""
        unfinished = f"{self._file}.new"
        with open(unfinished, "wb") as file:
            file.write(checkpoint)
        os.replace(unfinished, self._file)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, accept: Callable[[Report], None]) -> None:
        super().__init__(path, _Handler)
        self.accept = accept


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            self.server.accept(_decode_report(self.rfile.readline(REPORT_BYTES)))
            reply = b"{}"
        except msgspec.DecodeError as error:
            reply = msgspec.json.encode(failure_from_error(InvalidInput("report", f"is not valid: {error}")))
        except OctoStoreError as error:
            reply = msgspec.json.encode(failure_from_error(error))
        with suppress(OSError):  # the reporting process is gone
            self.wfile.write(reply + b"\n")


_decode_report = msgspec.json.Decoder(Report).decode


def _private_folder() -> str:
    folder = tempfile.mkdtemp(prefix="octostore-")  # makes it private
    if len(os.fsencode(folder)) + len("/socket") > SOCKET_PATH_BYTES:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="octostore-", dir="/tmp")
    return folder
