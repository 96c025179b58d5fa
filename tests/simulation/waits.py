"""Waiting claims: none waits forever, and each server serves them in order of arrival."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from tests.simulation.checks import SOUND, Promises
from tests.simulation.network import Exchange, Response
from tests.simulation.scheduler import Process, Scheduler

BOUNDED = "nobody waits forever"
IN_ORDER = "first come, first served"
WOKEN = "no wake-up is lost"

ORDER_SECONDS = 2.0
SLOW_ORDER_SECONDS = 15.0
"""How much earlier a claim must arrive to be served first. With a slow store, its first read can take this long."""
WAKE_SECONDS = 8.0
"""A waiting claim is served this soon after its job becomes free; much sooner unless the store is slow."""


class _Waiter(NamedTuple):
    """A waiting claim at a server."""

    exchange: Exchange
    key: str
    since: float
    until: float


class _Sleeper(NamedTuple):
    """A waiting claim in a process that opens the store itself."""

    job_id: str
    process: Process
    until: float


class Waits:
    def __init__(self, scheduler: Scheduler, checks: Promises) -> None:
        self._scheduler = scheduler
        self._checks = checks
        self._waiters: dict[Exchange, _Waiter] = {}
        self._sleepers: dict[_Sleeper, None] = {}
        self._seen: set[tuple[str, str | None]] = set()
        self.troubled_at: dict[str, float] = defaultdict(lambda: -1_000.0)
        """When each server's last pause or stop ended."""
        self.store_troubled_at = -1_000.0
        checks.on_free = self._became_free

    def call_took(self, client: str, what: str, seconds: float, bound: float) -> None:
        self._checks.hold(BOUNDED, seconds <= bound, f"{client} waited {seconds:.0f} s for: {what}", client)

    @contextmanager
    def sleeping(self, process: Process, job_id: str, wait: float) -> Iterator[None]:
        sleeper = _Sleeper(job_id, process, self._scheduler.now + wait)
        self._sleepers[sleeper] = None
        try:
            yield
        finally:
            self._sleepers.pop(sleeper, None)

    # What the network observes

    def arrived(self, exchange: Exchange) -> None:
        if not exchange.sent.path.endswith("/claim") or not exchange.sent.body:
            return
        body = msgspec.json.decode(exchange.sent.body)
        wait = body.get("wait_seconds") or 0
        if wait:
            now, request_id = self._scheduler.now, body.get("request_id")
            is_new = (exchange.server.name, request_id) not in self._seen
            self._seen.add((exchange.server.name, request_id))
            since = now if is_new else 0.0  # a repeated call keeps its place
            self._waiters[exchange] = _Waiter(exchange, exchange.sent.path, since, now + wait)

    def responded(self, exchange: Exchange, response: Response) -> None:
        self._checks.hold(SOUND, response.status != 500, f"{exchange.server.name} responds with {response.body!r}")
        waiter = self._waiters.pop(exchange, None)
        if waiter is not None and waiter.since:
            reply = msgspec.json.decode(response.body)
            if reply.get("status") == "claimed" and not reply.get("replayed"):
                self._check_order(waiter)

    def _check_order(self, served: _Waiter) -> None:
        server = served.exchange.server
        for other in self._in_line(served.key):
            if other.exchange.server is server and other.since:
                ahead = SLOW_ORDER_SECONDS if self._had_trouble(server.name, other.since - 1) else ORDER_SECONDS
                names = served.exchange.caller.name, other.exchange.caller.name
                text = f"{names[0]} gets {served.key} at {server.name} before {names[1]}, which waited longer"
                self._checks.hold(IN_ORDER, other.since + ahead >= served.since, text, *names)

    def _had_trouble(self, server: str, since: float) -> bool:
        return max(self.troubled_at[server], self.store_troubled_at) >= since

    def _in_line(self, key: str) -> list[_Waiter]:
        now = self._scheduler.now
        self._waiters = {
            exchange: waiter
            for exchange, waiter in self._waiters.items()
            if not exchange.is_cut and not exchange.server.process.is_dead and exchange in exchange.server.exchanges
        }
        return [w for w in self._waiters.values() if w.key == key and w.until > now + 1]

    # Wake-ups

    def _became_free(self, job_id: str, after_seconds: float) -> None:
        token, now = self._checks.facts[job_id].token, self._scheduler.now
        moment = now + after_seconds + WAKE_SECONDS
        in_line = [waiter for waiter in self._in_line(f"/jobs/{job_id}/claim") if waiter.until > moment]
        sleepers = [one for one in self._sleepers if one.job_id == job_id and one.until > moment]
        if in_line or sleepers:
            self._scheduler.at(moment, lambda: self._check_served(in_line, sleepers, job_id, token, now))

    def _check_served(
        self, in_line: list[_Waiter], sleepers: list[_Sleeper], job_id: str, token: int, freed_at: float
    ) -> None:
        is_free = self._checks.facts[job_id].token == token
        waiting: dict[object, Process] = {
            waiter: waiter.exchange.server.process for waiter in in_line if waiter in self._in_line(waiter.key)
        }
        waiting |= {one: one.process for one in sleepers if one in self._sleepers and not one.process.is_dead}
        for process in waiting.values():
            if not self._had_trouble(process.name, freed_at - 1):
                text = f"a claim in {process.name} still waits for {job_id}, which has been free since {freed_at:.3f} s"
                self._checks.hold(WOKEN, not is_free, text, job_id, process.name)
        self._checks.counts[WOKEN] += 1
