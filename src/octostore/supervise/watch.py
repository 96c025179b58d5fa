"""What the guardian does: start the command, and see to it that nothing of it outlives the lease or its holder."""

import array
import os
import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from octostore.client.lateness import Lateness
from octostore.stores.clock import boottime
from octostore.supervise import messages as m
from octostore.supervise import prctl
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.lease import Lease
from octostore.supervise.priority import Priority
from octostore.supervise.processes import descendants, kill_below, signal_all
from octostore.supervise.terminal import take_foreground
from octostore.supervise.wakeups import TICK_SECONDS, SignalPipe

TICKS_PER_TTL = 20
"""How often to see how late we are."""
HURRY_SECONDS = 0.01
"""How soon to look again for what was forked while everything was being killed."""
STREAMS = 3
BUFFER_BYTES = 65_536


class Watch:
    """Runs in a process of its own, which does nothing else. `line` leads to the holder of the claim."""

    def __init__(
        self, line: socket.socket, command: Sequence[str], stop_signal: int, dispositions: Dispositions
    ) -> None:
        self._line = line
        self._command = command
        self._stop_signal = stop_signal
        self._dispositions = dispositions
        self._unread = b""
        self._streams: list[int] = []
        self._has_holder = True
        self._turn = 0
        self._child: int | None = None
        self._has_family = False
        self._is_stopping = False
        self._priority = Priority()
        self._lateness = Lateness()
        self._lease = Lease(float("inf"), 0, 0, 0)
        self._kill_at = float("inf")

    def run(self) -> None:
        """Until the holder of the claim is gone, and the command with it."""
        prctl.adopt_orphans()
        self._dispositions.ignore_all()
        self._measure()
        with SignalPipe([signal.SIGCHLD]) as deaths:
            while self._has_holder or self._has_family:
                self._sleep(deaths)
                deaths.taken()
                self._reap()
                self._take_orders()
                self._keep_deadlines()

    def _measure(self) -> None:
        """How late the command may get its turn, which is as we were started, and then how late we do."""
        ordinary = Lateness()
        ordinary.measure(self._find)
        self._priority.raise_ours()
        self._lateness.measure(self._find)
        now = boottime()
        self._tell(m.Ready(ordinary.worst(now), self._lateness.worst(now)))

    def _find(self) -> list[int]:
        """Everything that would have to be killed; to be timed, because that is what takes the longest."""
        return descendants(os.getpid())

    def _sleep(self, deaths: SignalPipe) -> None:
        left = max(HURRY_SECONDS, min(self._tick(), self._next_deadline() - boottime()))
        due_at = boottime() + left
        readable = [deaths.fileno(), *([self._line.fileno()] if self._has_holder else [])]
        if not any(select.select(readable, [], [], left)) and not self._is_stopping:
            self._find()
            self._lateness.note(due_at, boottime())

    def _tick(self) -> float:
        return min(TICK_SECONDS, self._lease.ttl / TICKS_PER_TTL) if self._has_family else TICK_SECONDS

    def _next_deadline(self) -> float:
        if not self._has_family:
            return float("inf")
        delay = self._lateness.worst(boottime())
        return min(self._kill_at, self._lease.kill_at(delay) if self._is_stopping else self._lease.stop_at(delay))

    # What the holder of the claim says

    def _take_orders(self) -> None:
        while self._has_holder and select.select([self._line], [], [], 0)[0]:
            self._receive()
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self._obey(m.read_order(line))

    def _receive(self) -> None:
        try:
            data, control, _flags, _address = self._line.recvmsg(BUFFER_BYTES, socket.CMSG_SPACE(STREAMS * 4))
        except ConnectionError:
            data, control = b"", []
        for _level, _kind, packed in control:
            descriptors = array.array("i")
            descriptors.frombytes(packed[: len(packed) - len(packed) % descriptors.itemsize])
            self._streams += descriptors
        self._unread += data
        if not data:
            # It was killed. Whoever claims the job next shall find nothing of ours at work.
            self._has_holder = False
            self._kill_at = 0.0

    def _obey(self, order: m.Order) -> None:
        match order:
            case m.Start():
                self._start(order)
            case m.Renew(turn=turn) if turn == self._turn:
                # They may arrive in another order than the lease was renewed.
                if order.lease.ends_at >= self._lease.ends_at:
                    self._lease = order.lease
            case m.Renew():
                pass
            case m.Send():
                self._send(order.number)
            case m.Stop():
                self._stop(boottime() + order.grace)

    def _start(self, order: m.Start) -> None:
        streams, self._streams = self._streams, []
        self._turn, self._is_stopping = order.turn, False
        self._lease, self._kill_at = order.lease, float("inf")
        try:
            command = subprocess.Popen(  # noqa: S603  # to run what it is given is what it is for
                self._command,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=m.unpack_environment(order.environment),
                process_group=0,
                preexec_fn=partial(self._become, os.getpid(), in_foreground=order.in_foreground),  # noqa: PLW1509
            )
        except OSError as error:
            self._tell(m.NotStarted(error.errno or 0))
        else:
            command.returncode = 0  # we wait for it ourselves, and `Popen` need not worry
            self._child = command.pid
            self._has_family = True
            self._tell(m.Started(command.pid))
        finally:
            for stream in streams:
                os.close(stream)

    def _become(self, parent: int, *, in_foreground: bool) -> None:
        """In the new process, before it becomes the command."""
        prctl.die_with(parent)
        if in_foreground:
            take_foreground()
        self._dispositions.restore()
        self._priority.restore()

    # What becomes of the command

    def _reap(self) -> None:
        while self._has_family:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._finish()
                return
            if pid == 0:
                return
            if pid == self._child:
                self._tell_of(status)

    def _tell_of(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._tell(m.Paused(os.WSTOPSIG(status)))
        else:
            self._child = None
            self._tell(m.Ended(os.waitstatus_to_exitcode(status)))

    def _finish(self) -> None:
        """Everybody below us is our child, or a descendant of one: without children, nothing is left."""
        self._has_family = False
        self._tell(m.Gone())

    # How it is ended

    def _keep_deadlines(self) -> None:
        if not self._has_family:
            return
        now = boottime()
        delay = self._lateness.worst(now)
        kill_at = self._lease.kill_at(delay)
        if now >= self._lease.stop_at(delay) and not self._is_stopping:
            self._tell(m.LeaseOver())
            self._stop(kill_at)
        if now >= min(self._kill_at, kill_at):
            self._kill()

    def _kill(self) -> None:
        self._send(signal.SIGKILL)  # most of it at once, before we look for the rest
        kill_below(os.getpid())

    def _stop(self, kill_at: float) -> None:
        self._kill_at = min(self._kill_at, kill_at)
        if not self._is_stopping:
            self._is_stopping = True
            family = descendants(os.getpid())
            signal_all(family, self._stop_signal)
            signal_all(family, signal.SIGCONT)  # who is paused could not act on it

    def _send(self, number: int) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, number)

    def _tell(self, news: m.News) -> None:
        with suppress(OSError):  # without anybody to tell, there is still everything to do
            self._line.sendall(m.encode(news) + b"\n")
