"""The same in a store that has no time to tidy up: so much has run out that only what a command needs is written down.

An expired lease is no owner at once, whether or not anybody has written that down. So all answers and reads are those
of the model, which takes everything back at once; only the order of the log, and so the numbers in it, may differ.
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
from tests.model.state import Event, Told

EXPIRIES = {"expired", "session_expired"}
USUAL_SWEEP = 100
Log: TypeAlias = Sequence[Event] | Sequence[LogEntry]
NUMBERS = {"fencing_token", "context_seq"}
NOT_COMPARED = {"seq", "late_ms"}


class NeverTidy(MemoryBackend):
    @contextmanager
    def writing(self, needs: Needs) -> Iterator[MemoryRows]:
        if needs.sweep_limit <= USUAL_SWEEP:
            needs.sweep_limit = 0
        with super().writing(needs) as rows:
            yield rows


class Untidily(View):
    """Events are counted without the expiries, which may come later in the real log than in the model's."""

    def __init__(self, both: "UntidySideBySide") -> None:
        self.both = both

    def sorted(self, name: str, values: Any) -> Any:
        """In which order things were lost is known from when that was written down."""
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
    """The numbers of events, if expiries did not count. A log only grows, so each event is looked at once."""

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
    """An expiry, or the end of a job whose owner was to stop for good: nothing else cancels a dead one."""
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
        self.view = Untidily(self)
        self.ranks_of_model = Ranks(lambda after: self.model.log[after:])
        self.ranks_of_real = Ranks(lambda after: self.real.log(after))  # noqa: PLW0108  # it is made below
        self.expected, self.actual = BySubject(), BySubject()
        super().__init__(NeverTidy())

    def prepare(self, answer: Any) -> None:
        super().prepare(answer)
        self.model.noticed_first = answer.job_id if isinstance(answer, ClaimReply) else None

    def compare(self, command: AnyCommand, told: Told, answer: Any, *, is_first: bool) -> None:
        del is_first  # what has run out may be why to look again soon
        if isinstance(command, Recover):  # what the model has taken back before is not in its answer
            told, answer = Told(told.kind, told.fields | {"recovered": []}), replace(answer, recovered=[])
        super().compare(command, told, answer, is_first=False)

    def compare_logs(self) -> None:
        """What happened to each job and session is the same, but for expiries that are not written down yet."""
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
        """But for the expiries among what failed."""
        expected = [{**queue, "rates": None} for queue in seen.list_queues(self.model.log)["queues"]]
        told = sorted(plain(self.real.ask(ListQueues()).queues), key=lambda queue: str(queue["queue"]))
        actual = [{**queue, "rates": None} for queue in told]
        assert expected == actual, differences(expected, actual)

    def compare_figures(self) -> None:
        """Others tell apart what is written down and what is not."""
        expected, actual = self.model.figures(self.clock.now_ms), plain(self.real.ask(GetFigures()))
        for name in ("claimed", "late", "stuck", "open_sessions"):
            assert expected[name] == actual[name], name


class BySubject:
    """What happened to each job and session."""

    def __init__(self) -> None:
        self.of: dict[Any, list[Any]] = defaultdict(list)
        self.compared: Counter[Any] = Counter()
        self.count = 0

    def take(self, log: Log) -> None:
        for event in log:
            self.of[event.job_id, None if event.job_id else event.session_id].append(event)
        self.count += len(log)
