"""The same comparison with a store that records only the expiries a command needs, as if there were too many.

An expired lease stops counting at once, recorded or not. So all replies and reads equal those of the model, which
records expiries at once; only the order of the log may differ, and with it the numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from octostore.core.commands import AnyCommand, Recover
from octostore.core.events import LogEntry
from octostore.core.needs import Needs
from octostore.core.questions import GetFigures, ListQueues
from octostore.core.replies import ClaimReply
from octostore.stores.memory import MemoryBackend, MemoryRows
from tests.model.comparing import Pair, View, differences, event_pair, plain
from tests.model.histories import SideBySide
from tests.model.model import Model
from tests.model.state import Event, Reply

EXPIRIES = {"expired", "session_expired"}
USUAL_SWEEP = 100
Log: TypeAlias = Sequence[Event] | Sequence[LogEntry]
NUMBERS = {"fencing_token", "context_seq"}
NOT_COMPARED = {"seq", "late_ms"}


class NeverSweeping(MemoryBackend):
    @contextmanager
    def writing(self, needs: Needs) -> Iterator[MemoryRows]:
        if needs.sweep_limit <= USUAL_SWEEP:
            needs.sweep_limit = 0
        with super().writing(needs) as rows:
            yield rows


class UntidyView(View):
    """Numbers events without expiries, which may come later in the real log than in the model's."""

    def __init__(self, both: "UntidySideBySide") -> None:
        self.both = both

    def sorted(self, name: str, values: Any) -> Any:
        """Lost jobs are in the order in which their expiries were recorded, so ignore it."""
        if name != "in_flight":
            return values
        return sorted(values, key=lambda lost: lost if isinstance(lost, str) else plain(lost)["job_id"])

    def pair(self, name: str, pair: Pair) -> Pair:
        if name in NOT_COMPARED:
            return None, None
        if name not in NUMBERS or None in pair:
            return pair
        return self.both.ranks_of_model.of(pair[0]), self.both.ranks_of_real.of(pair[1])


class Ranks:
    """The numbers that events would have without expiries. Reads each event once, because a log only grows."""

    def __init__(self, read: Callable[[int], Log]) -> None:
        self._read = read
        self._log: list[Any] = []
        self._ranks = [0]

    def of(self, seq: int) -> int:
        if seq > len(self._log):
            self._log += self._read(len(self._log))
            for place in range(len(self._ranks) - 1, len(self._log)):
                self._ranks.append(self._ranks[-1] + (not is_of_expiry(self._log, place)))
        return self._ranks[seq]


def is_of_expiry(log: Log, place: int) -> bool:
    """An expiry, or the cancellation that follows it if the owner was asked to drain."""
    event = log[place]
    if event.type in EXPIRIES:
        return True
    before = log[place - 1] if place else event
    return event.type == "cancelled" and before.type == "expired" and event.job_id == before.job_id and is_dead(before)


def is_dead(ended: Event | LogEntry) -> bool:
    details = ended.details if isinstance(ended, Event) else msgspec.json.decode(ended.details)
    return bool(details["status"] == "dead")


class UntidySideBySide(SideBySide):
    def __init__(self) -> None:
        self.view = UntidyView(self)
        self.ranks_of_model = Ranks(lambda after: self.model.log[after:])
        self.ranks_of_real = Ranks(lambda after: self.real.log(after))  # noqa: PLW0108  # it is made below
        self.expected, self.actual = BySubject(), BySubject()
        super().__init__(NeverSweeping())

    def prepare(self, reply: Any) -> None:
        super().prepare(reply)
        self.model.noticed_first = reply.job_id if isinstance(reply, ClaimReply) else None

    def compare(self, command: AnyCommand, expected: Reply, reply: Any, *, is_first: bool) -> None:
        del is_first  # `retry_after_ms` may depend on unrecorded expiries
        if isinstance(command, Recover):  # the model has recorded most of them before
            expected, reply = Reply(expected.kind, expected.fields | {"recovered": []}), replace(reply, recovered=[])
        super().compare(command, expected, reply, is_first=False)

    def compare_logs(self) -> None:
        """Each job and session has the same events, except for expiries that are not recorded yet."""
        self.expected.take(self.model.log[self.expected.count :])
        self.actual.take(self.real.log(self.actual.count))
        for subject, events in self.expected.of.items():
            entries = self.actual.of[subject]
            assert all(is_of_expiry(events, place) for place in range(len(entries), len(events)))
            for place in range(self.actual.compared[subject], min(len(events), len(entries))):
                self.compare_event(events[place], entries[place], is_of_expiry=is_of_expiry(events, place))
                self.actual.compared[subject] += 1

    def compare_event(self, event: Event, entry: LogEntry, *, is_of_expiry: bool) -> None:
        one, other = event_pair(event, entry, self.view)
        if is_of_expiry:
            one, other = [{**head, "at": None} for head in (one, other)]
        assert one == other, differences(one, other)

    def compare_queues(self, seen: Model) -> None:
        """Without the rates, which count recorded expiries."""
        expected = [{**queue, "rates": None} for queue in seen.list_queues(self.model.log)["queues"]]
        listed = sorted(plain(self.real.ask(ListQueues()).queues), key=lambda queue: str(queue["queue"]))
        actual = [{**queue, "rates": None} for queue in listed]
        assert expected == actual, differences(expected, actual)

    def compare_figures(self) -> None:
        """The other figures depend on which expiries are recorded."""
        expected, actual = self.model.figures(self.clock.now_ms), plain(self.real.ask(GetFigures()))
        for name in ("claimed", "late", "stuck", "open_sessions"):
            assert expected[name] == actual[name], name


class BySubject:
    """The events of each job and session."""

    def __init__(self) -> None:
        self.of: dict[Any, list[Any]] = defaultdict(list)
        self.compared: Counter[Any] = Counter()
        self.count = 0

    def take(self, log: Log) -> None:
        for event in log:
            self.of[event.job_id, None if event.job_id else event.session_id].append(event)
        self.count += len(log)
