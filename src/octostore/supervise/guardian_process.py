"""The guardian's process: starts the command, and ends it before the lease ends or when the owner's process dies."""

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
from octostore.supervise.processes import descendants, kill_descendants, signal_all
from octostore.supervise.signal_pipe import TICK_SECONDS, SignalPipe
from octostore.supervise.terminal import take_foreground

TICKS_PER_TTL = 20
"""How often to measure our scheduling delay."""
HURRY_SECONDS = 0.01
"""How soon to look again for processes forked while everything was being killed."""
STREAMS = 3
BUFFER_BYTES = 65_536


class GuardianProcess:
    """Runs alone in its process. `connection` leads to the process that holds the claim."""

    def __init__(
        self, connection: socket.socket, command: Sequence[str], stop_signal: int, dispositions: Dispositions
    ) -> None:
        self._socket = connection
        self._command = command
        self._stop_signal = stop_signal
        self._dispositions = dispositions
        self._unread = b""
        self._streams: list[int] = []
        self._is_connected = True
        self._run_number = 0
        self._child: int | None = None
        self._has_children = False
        self._is_stopping = False
        self._priority = Priority()
        self._lateness = Lateness()
        self._lease = Lease(float("inf"), 0, 0, 0)
        self._kill_at = float("inf")

    def run(self) -> None:
        """Run until the process that holds the claim is gone, and the command with it."""
        prctl.adopt_orphans()
        self._dispositions.ignore_all()
        self._measure()
        with SignalPipe([signal.SIGCHLD]) as deaths:
            while self._is_connected or self._has_children:
                self._sleep(deaths)
                deaths.read()
                self._reap()
                self._take_orders()
                self._enforce_deadlines()

    def _measure(self) -> None:
        """Measure the scheduling delay at the command's priority, which is the one we start with, then at ours."""
        ordinary = Lateness()
        ordinary.measure(self._list_descendants)
        self._priority.raise_own()
        self._lateness.measure(self._list_descendants)
        now = boottime()
        self._send_update(m.Ready(ordinary.worst(now), self._lateness.worst(now)))

    def _list_descendants(self) -> list[int]:
        """Everything we would have to kill. Part of each measurement, because it takes the longest."""
        return descendants(os.getpid())

    def _sleep(self, deaths: SignalPipe) -> None:
        left = max(HURRY_SECONDS, min(self._tick(), self._next_deadline() - boottime()))
        due_at = boottime() + left
        readable = [deaths.fileno(), *([self._socket.fileno()] if self._is_connected else [])]
        if not any(select.select(readable, [], [], left)) and not self._is_stopping:
            self._list_descendants()
            self._lateness.note(due_at, boottime())

    def _tick(self) -> float:
        return min(TICK_SECONDS, self._lease.ttl / TICKS_PER_TTL) if self._has_children else TICK_SECONDS

    def _next_deadline(self) -> float:
        if not self._has_children:
            return float("inf")
        delay = self._lateness.worst(boottime())
        return min(self._kill_at, self._lease.kill_at(delay) if self._is_stopping else self._lease.stop_at(delay))

    # Orders

    def _take_orders(self) -> None:
        while self._is_connected and select.select([self._socket], [], [], 0)[0]:
            self._receive()
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self._handle_order(m.decode_order(line))

    def _receive(self) -> None:
        try:
            data, control, _flags, _address = self._socket.recvmsg(BUFFER_BYTES, socket.CMSG_SPACE(STREAMS * 4))
        except ConnectionError:
            data, control = b"", []
        for _level, _kind, packed in control:
            descriptors = array.array("i")
            descriptors.frombytes(packed[: len(packed) - len(packed) % descriptors.itemsize])
            self._streams += descriptors
        self._unread += data
        if not data:
            # It was killed. The job's next owner must find nothing of this command running.
            self._is_connected = False
            self._kill_at = 0.0

    def _handle_order(self, order: m.Order) -> None:
        match order:
            case m.Start():
                self._start(order)
            case m.Renew(run_number=run_number) if run_number == self._run_number:
                # Renewals may arrive out of order.
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
        self._run_number, self._is_stopping = order.run_number, False
        self._lease, self._kill_at = order.lease, float("inf")
        try:
            command = subprocess.Popen(  # noqa: S603  # running the user's command is its purpose
                self._command,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=m.unpack_environment(order.environment),
                process_group=0,
                preexec_fn=partial(self._prepare_child, os.getpid(), in_foreground=order.in_foreground),  # noqa: PLW1509
            )
        except OSError as error:
            self._send_update(m.NotStarted(error.errno or 0))
        else:
            command.returncode = 0  # we reap it ourselves; this keeps `Popen` from warning
            self._child = command.pid
            self._has_children = True
            self._send_update(m.Started(command.pid))
        finally:
            for stream in streams:
                os.close(stream)

    def _prepare_child(self, parent: int, *, in_foreground: bool) -> None:
        """Runs in the child, before exec."""
        prctl.die_with(parent)
        if in_foreground:
            take_foreground()
        self._dispositions.restore()
        self._priority.restore()

    # The command's end

    def _reap(self) -> None:
        while self._has_children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._finish()
                return
            if pid == 0:
                return
            if pid == self._child:
                self._report_status(status)

    def _report_status(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._send_update(m.Paused(os.WSTOPSIG(status)))
        else:
            self._child = None
            self._send_update(m.Ended(os.waitstatus_to_exitcode(status)))

    def _finish(self) -> None:
        """Every process below us descends from one of our children, so without children nothing is left."""
        self._has_children = False
        self._send_update(m.Gone())

    # Stopping the command

    def _enforce_deadlines(self) -> None:
        if not self._has_children:
            return
        now = boottime()
        delay = self._lateness.worst(now)
        kill_at = self._lease.kill_at(delay)
        if now >= self._lease.stop_at(delay) and not self._is_stopping:
            self._send_update(m.LeaseOver())
            self._stop(kill_at)
        if now >= min(self._kill_at, kill_at):
            self._kill()

    def _kill(self) -> None:
        self._send(signal.SIGKILL)  # most of them at once, before we look for the rest
        kill_descendants(os.getpid())

    def _stop(self, kill_at: float) -> None:
        self._kill_at = min(self._kill_at, kill_at)
        if not self._is_stopping:
            self._is_stopping = True
            family = descendants(os.getpid())
            signal_all(family, self._stop_signal)
            signal_all(family, signal.SIGCONT)  # a paused process could not react

    def _send(self, number: int) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, number)

    def _send_update(self, update: m.Update) -> None:
        with suppress(OSError):  # with nobody left to read it, the rest of the work remains
            self._socket.sendall(m.encode(update) + b"\n")
