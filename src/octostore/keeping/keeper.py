"""The keeper: a detached process that sends heartbeats for one claim until it ends, or until `rules` says so.

It is forked before there is a store, a thread or a claim, and receives the lease over a socket. So the lease is in no
command line and no environment, and the keeper holds nothing open that the command has opened.
"""

import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from typing import NoReturn, Self

import msgspec

from octostore.client.connect import connect
from octostore.client.hold import HeldClaim
from octostore.client.store import OctoStore
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.replies import ClaimReply
from octostore.keeping.leases import KeptLease, KeptLeases
from octostore.keeping.processes import Process, find, is_running, open_handle
from octostore.keeping.rules import Silence, why_to_end
from octostore.stores.clock import boottime
from octostore.stores.pausing import pauses
from octostore.supervise.signal_pipe import SignalPipe

WAIT_MAX_SECONDS = 10.0
"""The longest single wait: timers stand still while the machine sleeps."""
LOOK_SECONDS = 1.0
"""How often to check the watched process and the lease file, if the system does not notify us."""
RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS = 0.1, 5.0
NOBODY_HEARD = "released by its keeper: the command that made the claim was killed"
_TAKEN = b"+"
_PID_BYTES = 4


class Order(msgspec.Struct, frozen=True):
    """What to keep, from the command that claimed it."""

    url: str | None
    lease: KeptLease
    reply: ClaimReply
    asked_at: float
    """When the claim was requested, on the `boottime` clock."""


class Keeper:
    """A new keeper, as the command sees it. Create it while there is no other thread: it forks.

    It ends with the block unless it has received an order.
    """

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            self._line.close()
            _become_keeper(theirs)
        theirs.close()
        os.waitpid(child, 0)
        pid = int.from_bytes(self._line.recv(_PID_BYTES, socket.MSG_WAITALL), "big")
        self.process = find(pid) or Process(pid)

    def keep(self, order: Order) -> None:
        """Returns once it keeps the claim. Raises `Unreachable` if it cannot, or if the claim has already ended."""
        with suppress(OSError):
            self._line.sendall(msgspec.json.encode(order))
            self._line.shutdown(socket.SHUT_WR)
            if self._line.recv(len(_TAKEN)) == _TAKEN:
                return
        raise Unreachable("the process that should keep the claim has ended; the claim was released", reason="io")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._line.close()


def _become_keeper(line: socket.socket) -> NoReturn:
    """Detached, in its own session, with nothing open."""
    code = os.EX_SOFTWARE
    try:
        os.setsid()
        if os.fork():
            os._exit(os.EX_OK)  # a process that does not lead its session never gets a terminal
        _let_go(line)
        line.sendall(os.getpid().to_bytes(_PID_BYTES, "big"))
        with SignalPipe([signal.SIGTERM]) as signals:
            for number in (signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            order = _read_all(line)
            if order:
                _keep(msgspec.json.decode(order, type=Order), line, signals)
        code = os.EX_OK
    finally:
        os._exit(code)  # skip the exit handlers of the command


def _let_go(line: socket.socket) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.closerange(3, line.fileno())
    os.closerange(line.fileno() + 1, os.sysconf("SC_OPEN_MAX"))


def _read_all(line: socket.socket) -> bytes:
    """Until the other side has sent everything, or has ended."""
    with line.makefile("rb") as file:
        return file.read()


def _keep(order: Order, line: socket.socket, signals: SignalPipe) -> None:
    with ExitStack() as block:
        store = block.enter_context(connect(order.url))  # here, because the URL may be relative
        leases = KeptLeases.of_store(order.url)
        os.chdir("/")
        with suppress(OctoStoreError):  # the claim will expire
            claim = _enter(block, store, order, signals)
            _end(claim, _Watch(order.lease, leases, claim, signals).wait() if _confirm(line) else NOBODY_HEARD)


def _confirm(line: socket.socket) -> bool:
    """Tell the command that its claim is kept, once it certainly is; return whether the command is still there."""
    with suppress(OSError), line:
        line.sendall(_TAKEN)
        return True
    return False


def _enter(block: ExitStack, store: OctoStore, order: Order, signals: SignalPipe) -> HeldClaim:
    """It may begin with a heartbeat, which is retried for as long as the claim may exist."""
    until = boottime() + order.lease.ttl
    for pause in pauses(RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS):
        try:
            return block.enter_context(store.keep(order.reply, asked_at=order.asked_at, on_lost=signals.wake))
        except Unreachable as fault:
            if fault.is_lasting or boottime() + pause > until:
                raise
        time.sleep(pause)
    raise AssertionError("pauses have no end")


def _end(claim: HeldClaim, note: str | None) -> None:
    """The block ends after this."""
    if note is None:
        claim.let_expire()  # it has already ended
    else:
        claim.end_as("released", note=note)


class _Watch:
    """Waits until there is something to do, asleep for as long as possible."""

    def __init__(self, lease: KeptLease, leases: KeptLeases, claim: HeldClaim, signals: SignalPipe) -> None:
        self._lease = lease
        self._leases = leases
        self._claim = claim
        self._signals = signals
        self._silence = Silence(lease.max_silence, boottime())
        self._handle = None if lease.watched is None else open_handle(lease.watched)

    def wait(self) -> str | None:
        """The note to release the claim with; None if it has ended."""
        is_asked_to_stop = False
        while not self._claim.lost.is_set():
            is_filed = self._leases.confirm(self._lease)
            if is_asked_to_stop and not is_filed:
                return None  # its release recorded why
            self._silence.note(self._leases.life_shown_at(self._lease.owner), time.time(), boottime())
            note = why_to_end(
                self._lease,
                is_filed=is_filed,
                is_watched_gone=self._is_watched_gone(),
                silence_left=self._silence.left(boottime()),
                is_asked_to_stop=is_asked_to_stop,
            )
            if note is not None:
                return note
            self._sleep()
            is_asked_to_stop = signal.SIGTERM in self._signals.read()
        return None

    def _is_watched_gone(self) -> bool:
        return self._lease.watched is not None and not is_running(self._lease.watched)

    def _sleep(self) -> None:
        # If the system cannot tell a process from a later one with the same number, nobody gets a signal either.
        is_looking = (self._lease.watched is not None and self._handle is None) or not self._lease.keeper.started
        seconds = LOOK_SECONDS if is_looking else min(WAIT_MAX_SECONDS, self._silence.left(boottime()))
        handles = [self._signals.fileno()] + ([] if self._handle is None else [self._handle])
        select.select(handles, [], [], seconds)
