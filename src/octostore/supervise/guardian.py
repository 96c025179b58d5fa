"""The guardian, as the process that holds the claim knows it."""

import os
import select
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from octostore.client.lateness import check_keepable, here
from octostore.core.limits import TTL_MAX_MS, TTL_MIN_MS, check_seconds
from octostore.stores.clock import boottime
from octostore.supervise import messages as m
from octostore.supervise import prctl
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.lease import Lease
from octostore.supervise.processes import end_orphans, kill_below, signal_all
from octostore.supervise.wakeups import TICK_SECONDS
from octostore.supervise.watch import BUFFER_BYTES, Watch

_FIRST_DESCRIPTOR = 3  # behind the standard streams


_living: set[int] = set()


class GuardianDied(Exception):
    """Somebody killed it. The command does not survive that either, but nobody knows how it ended."""


class Guardian:
    """Starts `command`, one time after the other. To be made before there is any thread: it forks.

    Its methods may be called from any thread; `news` by one at a time.
    """

    def __init__(self, command: Sequence[str], *, stop_signal: int, dispositions: Dispositions) -> None:
        # Should the guardian be killed, what it watched over becomes ours.
        prctl.adopt_orphans()
        self._line, theirs = socket.socketpair()
        self._sending = threading.Lock()  # an order is longer than what is surely sent at once
        self._turn = 0
        self._unread = b""
        self.is_over = False
        self.pid = os.fork()
        if self.pid == 0:
            _become_guardian(theirs, command, stop_signal, dispositions)
        theirs.close()
        _living.add(self.pid)

    def fileno(self) -> int:
        return self._line.fileno()

    def check_keepable(self, ttl: float) -> None:
        """Whether a command can be ended in time. To be asked once, before the first claim; raises `InvalidInput`."""
        check_seconds("ttl", ttl, TTL_MIN_MS, TTL_MAX_MS)
        with suppress(GuardianDied):  # which who starts a command is told
            while not (news := self.news(TICK_SECONDS)):
                pass
            for ready in news:
                if isinstance(ready, m.Ready):
                    now = boottime()
                    here.note(now - ready.ordinary, now)
                    check_keepable(ttl, ready.ordinary, ready.own)

    def start(
        self,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        lease: Lease,
        *,
        in_foreground: bool = False,
    ) -> int:
        """`streams` are its stdin, stdout and stderr; `lease` is what it runs under, until `renew`.

        Gives the number of this turn, for `renew`.
        """
        self._turn += 1
        self._order(m.Start(self._turn, m.pack_environment(environment), lease, in_foreground), streams)
        return self._turn

    def renew(self, turn: int, lease: Lease) -> None:
        self._order(m.Renew(turn, lease))

    def send(self, number: int) -> None:
        self._order(m.Send(number))

    def stop(self, grace: float) -> None:
        self._order(m.Stop(grace))

    def kill(self) -> None:
        """Now, also if the guardian should be paused."""
        self.stop(0)
        kill_below(self.pid)
        signal_all([self.pid], signal.SIGCONT)  # for what was being forked, and to tell when nothing is left

    def news(self, seconds: float) -> list[m.News]:
        """What has happened, after waiting for it up to `seconds`. Raises `GuardianDied`."""
        if not select.select([self._line], [], [], seconds)[0]:
            return []
        try:
            data = self._line.recv(BUFFER_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise GuardianDied
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [m.read_news(line) for line in lines]

    def close(self) -> None:
        """It ends, and everything that it watches over."""
        if not self.is_over:
            self._let_go()
            signal_all([self.pid], signal.SIGCONT)  # should somebody have paused it
            os.waitpid(self.pid, 0)

    def bury(self) -> None:
        """After its death: what it watched over is ours to end, and nothing of it is left afterwards."""
        self._let_go()
        end_orphans(_living)

    def _let_go(self) -> None:
        self.is_over = True
        self._line.close()
        _living.discard(self.pid)

    def _order(self, order: m.Order, streams: Sequence[int] = ()) -> None:
        line = m.encode(order) + b"\n"
        with self._sending, suppress(OSError):  # it has died, which `news` tells
            sent = socket.send_fds(self._line, [line], streams) if streams else 0
            self._line.sendall(line[sent:])


def _become_guardian(
    line: socket.socket, command: Sequence[str], stop_signal: int, dispositions: Dispositions
) -> NoReturn:
    code = 1
    try:
        # In a group of its own: a signal to ours must not take it away before its work is done.
        os.setpgid(0, 0)
        # Nobody else's lines: while we have one open, its other end would never learn that we are gone.
        os.dup2(line.fileno(), _FIRST_DESCRIPTOR)
        os.closerange(_FIRST_DESCRIPTOR + 1, os.sysconf("SC_OPEN_MAX"))
        line.detach()
        Watch(socket.socket(fileno=_FIRST_DESCRIPTOR), command, stop_signal, dispositions).run()
        code = 0
    finally:
        os._exit(code)
