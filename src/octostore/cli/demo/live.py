"""The demo on a terminal: one line per agent and one for the store, updated in place."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.demo import messages as m
from octostore.client.store import OctoStore
from octostore.core.replies import JobView

HEADER = ("AGENT", "PID", "STATE")


class State(NamedTuple):
    colour: str
    text: str


class LiveView:
    def __init__(self, console: Console, store: OctoStore, pids: Mapping[str, int], job_id: str) -> None:
        self._console = console
        self._store = store
        self._pids = pids
        self._job_id = job_id
        self._states = dict.fromkeys(pids, State("dim", "starting"))
        self._successors: dict[str, str] = {}
        self._left = ""
        self._takeover: list[str] = []
        self._painted = 0

    def show(self, event: m.DemoEvent) -> None:
        agent, message = event.agent, event.message
        match message:
            case m.Claimed(took_over_from=str(dead), checkpoint=checkpoint):
                self._successors[agent] = f" (after {dead})"
                self._left = words.as_json(checkpoint)
            case m.TakenOver(dead=dead, seconds_after_last_heartbeat=took):
                self._takeover.append(
                    f"{agent} took over {took:.3f} s after the last heartbeat of {dead}, with {self._left}"
                )
        if type(message) in _STATES:
            colour, describe = _STATES[type(message)]
            self._states[agent] = State(colour, describe(message) + self._successors.get(agent, ""))

    def tick(self, elapsed: float) -> None:
        lines = list(self._lines(elapsed))
        self._console.paint_over(self._painted, lines)
        self._painted = len(lines)

    def _lines(self, elapsed: float) -> Iterator[str]:
        rows = [(name, str(self._pids[name]), state.text) for name, state in self._states.items()]
        head, *body = self._console.table(HEADER, rows)
        yield head
        for line, state in zip(body, self._states.values(), strict=True):
            yield self._console.style(line, state.colour)
        yield ""
        job = f"{elapsed:.1f} s  {_describe_job(self._store.get_job(self._job_id))}"
        for line in (job, *self._takeover):
            yield from self._console.table((line,), [])


_STATES: dict[type[m.DemoMessage], tuple[str, Callable[[Any], str]]] = {
    m.Ready: ("dim", lambda _: "ready"),
    m.Held: ("yellow", lambda held: f"waiting: {held.owner} has had it since {held.claimed_at:%H:%M:%S} UTC"),
    m.Claimed: ("green", lambda _: "owner"),
    m.Working: ("green", lambda working: f"owner, step {working.step} of {working.steps}: {working.note}"),
    m.Killed: ("red", lambda killed: f"DEAD: a real kill -9 while {killed.note} (step {killed.step})"),
    m.Finished: ("green", lambda finished: f"finished it: {words.as_json(finished.result)}"),
    m.Done: ("cyan", lambda done: f"sees that it is done: {words.as_json(done.result)}"),
}


def _describe_job(job: JobView) -> str:
    """What anyone can read from the store."""
    if job.status == "done":
        return f"{job.job_id} is done: {words.as_json(job.result)}"
    if job.claim is None:
        return f"nobody has {job.job_id}"
    now = words.now()
    heard = words.seconds_between(job.claim.heartbeat_at, now)
    left = max(0.0, words.seconds_between(now, job.claim.expires_at))
    return f"{job.claim.owner} has {job.job_id}: heartbeat {heard:.1f} s ago, expires in {left:.1f} s"
