"""The guardian, seen from the process that holds the claim."""

import os
import select
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from octostore.client.lateness import check_ttl_is_safe, own_lateness
from octostore.core.limits import TTL_MAX_MS, TTL_MIN_MS, check_seconds
from octostore.stores.clock import boottime
from octostore.supervise import messages as m
from octostore.supervise import prctl
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.guardian_process import BUFFER_BYTES, GuardianProcess
from octostore.supervise.lease import Lease
from octostore.supervise.processes import kill_descendants, kill_orphans, signal_all
from octostore.supervise.signal_pipe import TICK_SECONDS

_FIRST_DESCRIPTOR = 3  # after the standard streams

_live_pids: set[int] = set()


class GuardianDied(Exception):
    """The guardian was killed. Its command dies with it, but nobody knows how that ended."""


class Guardian:
    """Runs `command`, once per `start`. Create it before starting any thread: it forks.

    Methods may be called from any thread; `read_updates` from one at a time.
    """

    def __init__(self, command: Sequence[str], *, stop_signal: int, dispositions: Dispositions) -> None:
        # If the guardian is killed, we inherit its command.
        prctl.adopt_orphans()
        self._socket, guardian_end = socket.socketpair()
        self._sending = threading.Lock()  # one send may not take a whole order
        self._run_number = 0
        self._unread = b""
        self.is_closed = False
        self.pid = os.fork()
        if self.pid == 0:
            _become_guardian(guardian_end, command, stop_signal, dispositions)
        guardian_end.close()
        _live_pids.add(self.pid)

    def fileno(self) -> int:
        return self._socket.fileno()

    def check_ttl(self, ttl: float) -> None:
        """Raise `InvalidInput` if a command could not be stopped in time. Call it once, before the first claim."""
        check_seconds("ttl", ttl, TTL_MIN_MS, TTL_MAX_MS)
        with suppress(GuardianDied):  # the next start reports it
            while not (updates := self.read_updates(TICK_SECONDS)):
                pass
            for ready in updates:
                if isinstance(ready, m.Ready):
                    now = boottime()
                    own_lateness.note(now - ready.ordinary, now)
                    check_ttl_is_safe(ttl, ready.ordinary, ready.own)

    def start(
        self,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        lease: Lease,
        *,
        in_foreground: bool = False,
    ) -> int:
        """Start the command with these `streams` (stdin, stdout, stderr), under `lease` until `renew`.

        Returns the number of this run, for `renew`.
        """
        self._run_number += 1
        self._order(m.Start(self._run_number, m.pack_environment(environment), lease, in_foreground), streams)
        return self._run_number

    def renew(self, run_number: int, lease: Lease) -> None:
        self._order(m.Renew(run_number, lease))

    def send(self, number: int) -> None:
        self._order(m.Send(number))

    def stop(self, grace: float) -> None:
        self._order(m.Stop(grace))

    def kill(self) -> None:
        """Kill the command now, even if the guardian is paused."""
        self.stop(0)
        kill_descendants(self.pid)
        signal_all([self.pid], signal.SIGCONT)  # to kill what was just forked, and to report the end

    def read_updates(self, seconds: float) -> list[m.Update]:
        """Wait up to `seconds` for updates. Raises `GuardianDied`."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return []
        try:
            data = self._socket.recv(BUFFER_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise GuardianDied
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [m.decode_update(line) for line in lines]

    def close(self) -> None:
        """End the guardian and its command."""
        if not self.is_closed:
            self._disconnect()
            signal_all([self.pid], signal.SIGCONT)  # in case it is paused
            os.waitpid(self.pid, 0)

    def end_orphans(self) -> None:
        """After the guardian's death: kill everything it left behind, and wait for it."""
        self._disconnect()
        kill_orphans(_live_pids)

    def _disconnect(self) -> None:
        self.is_closed = True
        self._socket.close()
        _live_pids.discard(self.pid)

    def _order(self, order: m.Order, streams: Sequence[int] = ()) -> None:
        line = m.encode(order) + b"\n"
        with self._sending, suppress(OSError):  # if it died, `read_updates` says so
            sent = socket.send_fds(self._socket, [line], streams) if streams else 0
            self._socket.sendall(line[sent:])


def _become_guardian(
    connection: socket.socket, command: Sequence[str], stop_signal: int, dispositions: Dispositions
) -> NoReturn:
    code = 1
    try:
        # In its own process group: a signal to ours must not end it before its work is done.
        os.setpgid(0, 0)
        # Close other guardians' sockets: while a copy is open, their other end never sees a hangup.
        os.dup2(connection.fileno(), _FIRST_DESCRIPTOR)
        os.closerange(_FIRST_DESCRIPTOR + 1, os.sysconf("SC_OPEN_MAX"))
        connection.detach()
        GuardianProcess(socket.socket(fileno=_FIRST_DESCRIPTOR), command, stop_signal, dispositions).run()
        code = 0
    finally:
        os._exit(code)
