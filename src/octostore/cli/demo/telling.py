"""The demo in lines, as it happens; and what is said before and after it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import TTL_SECONDS
from octostore.cli.story import sentence
from octostore.core.events import Event

OPENING = (
    "Five agents, each a process of its own, want the same job: {job_id}. Only one may have it.",
    "Processes, store and kill are real; only the work is pretended. This takes about 8 seconds.",
)
NEXT = (
    ("octostore run nightly-report -- ./report.sh", "runs it, unless somebody else is running it"),
    ("octostore owner nightly-report", "who has it, since when, and whether alive"),
    ("octostore list --watch", "who has what, live"),
)


class Narrator:
    """A line for everything that a newcomer wants to know; with --json, one for everything."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, happening: m.Happening) -> None:
        self._console.answer(happening.document, *_lines(happening))

    def tick(self, elapsed: float) -> None:
        """What happens in between is nothing to tell."""


def open_story(console: Console, job_id: str) -> None:
    if not console.is_json:
        console.say(*(line.format(job_id=job_id) for line in OPENING), "")


def close_story(console: Console, events: Iterable[Event]) -> None:
    if not console.is_json:
        console.say("", console.style("What the event log says:", "bold"))
    for event in events:
        console.answer(event, f"  {event.seq}  {event.at:%H:%M:%S}  {sentence(event)}")
    if not console.is_json:
        console.say("", console.style("Try next:", "bold"))
        console.say(*(f"  {command:<46}{console.style(f'# {why}', 'dim')}" for command, why in NEXT))


def _lines(happening: m.Happening) -> Iterator[str]:
    tell = _TOLD.get(type(happening.message))
    if tell is not None:
        yield f"{happening.elapsed:5.1f} s  {happening.agent}  {tell(happening.message)}"


def _claimed(claimed: m.Claimed) -> str:
    if claimed.took_over_from is None:
        return f"claimed it: it is the owner, until {TTL_SECONDS} s (the TTL) pass without a heartbeat"
    left = words.as_json(claimed.checkpoint)
    return f"took over, and goes on from the checkpoint that {claimed.took_over_from} left: {left}"


_TOLD: dict[type[m.Happened], Callable[[Any], str]] = {
    m.Claimed: _claimed,
    m.Held: lambda it: f"sees that {it.owner} has it, since {it.claimed_at:%H:%M:%S} UTC, and waits",
    m.Saved: lambda it: f"step {it.step} of {it.steps}, {it.note}: done. Checkpoint: {words.as_json(it.checkpoint)}",
    m.Killed: lambda it: f"KILLED while {it.note} (step {it.step}): a real kill -9 of process {it.pid}",
    m.TakenOver: lambda it: (
        f"got it {it.seconds_after_last_heartbeat:.3f} s after the last heartbeat of {it.dead}: "
        f"{it.seconds_after_expiry:.3f} s past its TTL of {it.ttl:g} s"
    ),
    m.Finished: lambda it: f"finished it, with the result {words.as_json(it.result)}",
    m.Done: lambda it: f"learns that it is done, with the result {words.as_json(it.result)}: nothing left to do",
}
