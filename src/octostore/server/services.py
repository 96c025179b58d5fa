"""Everything handlers use, created once when the server starts."""

import asyncio
import hmac
import uuid
from pathlib import Path
from typing import Any

from octostore.core.commands import Probe, Recover
from octostore.core.errors import OctoStoreError
from octostore.core.events import LogEntry
from octostore.core.model import SERVER
from octostore.core.questions import GetFigures, GetStoreKey, ListQueues
from octostore.core.replies import Figures, ProbeReply, QueueList
from octostore.server import auth
from octostore.server.feed import Feed
from octostore.server.heartbeat_feed import HeartbeatFeed
from octostore.server.logins import Logins
from octostore.server.metrics import Metrics
from octostore.server.outage import Outage
from octostore.server.quotas import SampledLimit
from octostore.server.rate_limiter import RateLimiter
from octostore.server.reply_cache import ReplyCache
from octostore.server.settings import Settings
from octostore.server.standstill import StandstillDetector
from octostore.server.store import ServedStore
from octostore.server.streams import OpenStreams
from octostore.server.tools import LazyTools, LoadTools
from octostore.server.waiting_claims import WaitingClaims
from octostore.stores.store import LocalStore
from octostore.wire.token_files import admin_token_file

FIGURES_SECONDS = 2.0
PROBE_SECONDS = 1.0
QUEUES_SECONDS = 10.0
"""How long replies that cost a scan or a write are cached, because anyone may ask for them."""

SEAL_BYTES = 12
"""Seals are short, because models copy them. The rate limit makes guessing hopeless."""


class Services:
    def __init__(
        self,
        settings: Settings,
        store: LocalStore,
        metrics: Metrics,
        data_folder: Path,
        load_tools: LoadTools | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.data_folder = data_folder
        self.store = ServedStore(store)
        self.rates = RateLimiter(settings.requests_per_second)
        self.max_claims = SampledLimit(settings.max_claims)
        static = auth.read_static_tokens(settings.tokens_file) if settings.tokens_file else {}
        self.logins = Logins(settings.base_path)
        self.auth = auth.Auth(self.store, static, self.logins)
        self.waiting = WaitingClaims(self.store)
        self.streams = OpenStreams(settings.max_streams)
        self.standstill = StandstillDetector()
        self.feed = Feed(self.store, self._on_entries, settings.keepalive_seconds / 3)
        self.heartbeats = HeartbeatFeed(self.store, self.feed)
        self.is_stopping = False
        self.routes: dict[str, Any] = {}
        """By operation, for batches."""
        self._key, self.store_id = b"", ""
        self.figures = ReplyCache[Figures](FIGURES_SECONDS, lambda _: self.store.ask(GetFigures()))
        self.probe = ReplyCache[ProbeReply](PROBE_SECONDS, lambda _: self.store.execute(Probe()))
        self.queues = ReplyCache[QueueList](QUEUES_SECONDS, lambda prefix: self.store.ask(ListQueues(prefix=prefix)))
        """By the name prefix that a token is limited to."""
        self._sweeper: asyncio.Task[None] | None = None
        self.outage = Outage()
        self.tools = LazyTools(load_tools, self.store.in_thread)

    async def start(self) -> None:
        await self.store.in_thread(self.store.local.create)  # so that questions work before the first write
        known = await self.store.ask(GetStoreKey())
        self._key, self.store_id = known.key, known.store_id
        self.logins.start(known.store_id, known.key)
        if self.settings.tokens_file is None:
            await auth.ensure_admin_token(self.store, self.admin_file)
        self.feed.start()
        self.standstill.start()
        self._sweeper = asyncio.create_task(self._sweep())

    @property
    def admin_file(self) -> Path:
        """The file with the store's first token, unless the server uses a tokens file."""
        return admin_token_file(self.data_folder, self.store_id)

    def stop(self) -> None:
        """End waiting claims and streams. Other requests finish by themselves."""
        self.is_stopping = True
        self.waiting.stop()
        self.heartbeats.stop()
        self.feed.stop()

    async def close(self) -> None:
        self.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.standstill.stop()
        await self.store.close()

    def pseudonym(self, kind: str, *who: str | None) -> str:
        """A UUID that is always the same for the same input, and does not reveal it."""
        text = "\0".join([kind, *(part or "" for part in who)])
        return str(uuid.UUID(bytes=hmac.digest(self._key, text.encode(), "sha256")[:16], version=4))

    def seal(self, *parts: str) -> str:
        """A signature of these texts that only servers on this store can make."""
        text = "\0".join(["seal", *parts])
        return hmac.digest(self._key, text.encode(), "sha256")[:SEAL_BYTES].hex()

    def _on_entries(self, entries: list[LogEntry]) -> None:
        types = [entry.type for entry in entries]
        self.metrics.on_entries(entries, types)
        if "queue_limited" in types:
            self.queues.forget()
        if "restored" in types:
            self.auth.forget_all()
        if not auth.CHANGES.isdisjoint(types):
            self.on_changed_tokens(auth.changed_tokens(entries))

    def on_changed_tokens(self, token_ids: set[str]) -> None:
        """Tokens were revoked or rotated: check their waiting claims and streams again."""
        self.auth.forget(token_ids)
        self.waiting.recheck_tokens(token_ids)
        self.feed.wake()

    async def _sweep(self) -> None:
        """Record expiries soon after they happen, for readers of the log, and notice when the store is unreachable."""
        while True:
            await asyncio.sleep(self.settings.sweep_seconds)
            try:
                if self.outage.is_ongoing:
                    await self.store.execute(Probe(principal=SERVER))  # recovery writes nothing if nothing has expired
                while not (await self.store.execute(Recover(principal=SERVER))).is_complete:
                    pass
            except OctoStoreError as fault:
                self.outage.begin(fault)
            else:
                self.outage.end()
