"""The demo as lines of text, with an introduction and a summary."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import TTL_SECONDS
from octostore.cli.story import sentence
from octostore.core.events import Event

OPENING = (
    "Five agents, each in its own process, want the same job: {job_id}. Only one may have it.",
    "Processes, store and kill are real; only the work is simulated. The demo takes about 8 seconds.",
)
NEXT = (
    ("octostore run nightly-report -- ./report.sh", "runs it, unless somebody else is running it"),
    ("octostore owner nightly-report", "who has it, since when, and whether they are alive"),
    ("octostore list --watch", "who has what, live"),
)


class Narrator:
    """One line per event that matters to a newcomer; with --json, one for every event."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, event: m.DemoEvent) -> None:
        self._console.print_result(event.document, *_lines(event))

    def tick(self, elapsed: float) -> None:
        """Nothing to print."""


def open_story(console: Console, job_id: str) -> None:
    if not console.is_json:
        console.print_lines(*(line.format(job_id=job_id) for line in OPENING), "")


def close_story(console: Console, events: Iterable[Event]) -> None:
    if not console.is_json:
        console.print_lines("", console.style("What the event log says:", "bold"))
    for event in events:
        console.print_result(event, f"  {event.seq}  {event.at:%H:%M:%S}  {sentence(event)}")
    if not console.is_json:
        console.print_lines("", console.style("Try next:", "bold"))
        console.print_lines(*(f"  {command:<46}{console.style(f'# {why}', 'dim')}" for command, why in NEXT))


def _lines(event: m.DemoEvent) -> Iterator[str]:
    describe = _SENTENCES.get(type(event.message))
    if describe is not None:
        yield f"{event.elapsed:5.1f} s  {event.agent}  {describe(event.message)}"


def _claimed(claimed: m.Claimed) -> str:
    if claimed.took_over_from is None:
        return f"claimed it, and owns it until {TTL_SECONDS} s (the TTL) pass without a heartbeat"
    left = words.as_json(claimed.checkpoint)
    return f"took over, and continues from {claimed.took_over_from}'s checkpoint: {left}"


_SENTENCES: dict[type[m.DemoMessage], Callable[[Any], str]] = {
    m.Claimed: _claimed,
    m.Held: lambda it: f"sees that {it.owner} has had it since {it.claimed_at:%H:%M:%S} UTC, and waits",
    m.Saved: lambda it: f"step {it.step} of {it.steps}, {it.note}: done. Checkpoint: {words.as_json(it.checkpoint)}",
    m.Killed: lambda it: f"KILLED while {it.note} (step {it.step}): a real kill -9 of process {it.pid}",
    m.TakenOver: lambda it: (
        f"got it {it.seconds_after_last_heartbeat:.3f} s after the last heartbeat of {it.dead}: "
        f"{it.seconds_after_expiry:.3f} s past its TTL of {it.ttl:g} s"
    ),
    m.Finished: lambda it: f"finished it, with the result {words.as_json(it.result)}",
    m.Done: lambda it: f"sees that it is done, with the result {words.as_json(it.result)}; nothing left to do",
}
