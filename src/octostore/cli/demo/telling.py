"""The demo in lines, as it happens; and what is said before and after it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import JOB_ID, TTL_SECONDS
from octostore.cli.story import sentence
from octostore.core.events import Event

OPENING = (
    f"Five agents, each a process of its own, want the same job: {JOB_ID}. Only one may have it.",
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


def open_story(console: Console) -> None:
    if not console.is_json:
        console.say(*OPENING, "")


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


def _held(held: m.Held) -> str:
    return f"sees that {held.owner} has it, since {held.claimed_at:%H:%M:%S} UTC, and waits"


def _saved(saved: m.Saved) -> str:
    return f"step {saved.step} of {saved.steps}, {saved.note}: done. Checkpoint: {words.as_json(saved.checkpoint)}"


def _killed(killed: m.Killed) -> str:
    return f"KILLED while {killed.note} (step {killed.step}): a real kill -9 of process {killed.pid}"


def _taken_over(takeover: m.TakenOver) -> str:
    return (
        f"got it {takeover.seconds_after_last_heartbeat:.3f} s after the last heartbeat of {takeover.dead}: "
        f"{takeover.seconds_after_expiry:.3f} s past its TTL of {takeover.ttl:g} s"
    )


def _finished(finished: m.Finished) -> str:
    return f"finished it, with the result {words.as_json(finished.result)}"


def _done(done: m.Done) -> str:
    return f"is told that it is done, with the result {words.as_json(done.result)}: nothing left to do"


_TOLD: dict[type[m.Happened], Callable[[Any], str]] = {
    m.Claimed: _claimed,
    m.Held: _held,
    m.Saved: _saved,
    m.Killed: _killed,
    m.TakenOver: _taken_over,
    m.Finished: _finished,
    m.Done: _done,
}
