"""The course of the demo: five agents race, the winner is killed, another one finishes."""

import signal
import time
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from octostore.cli import words
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import FATAL_STEP, PATIENCE_SECONDS
from octostore.cli.demo.team import Agent, Team
from octostore.client.store import OctoStore
from octostore.core.events import Event

TICK_SECONDS = 0.1
Heard: TypeAlias = list[tuple[Agent, m.Said]]


class Show(Protocol):
    """Who is told of everything."""

    def tell(self, happening: m.Happening) -> None: ...

    def tick(self, elapsed: float) -> None:
        """Some time has passed."""


class Race:
    def __init__(self, team: Team, store: OctoStore, show: Show, job_id: str, began_at: float) -> None:
        self._team = team
        self._store = store
        self._show = show
        self._job_id = job_id
        self._began_at = began_at
        self._owners: set[str] = set()
        self._is_finished = False
        self._has_killed = False
        self._early: Heard = []

    def run(self) -> None:
        ready = 0
        while ready < len(self._team.pids):
            ready += self._go_on()
        self._team.go()
        while self._team.is_at_work:
            self._go_on()

    def _go_on(self) -> int:
        """How many things were said."""
        heard = self._team.hear(TICK_SECONDS)
        victim = self._chosen_from(heard)
        if victim is not None:
            heard += [(victim, said) for said in self._team.kill(victim)]
        for agent, said in heard:
            self._take(agent, said)
        if victim is not None:
            self._tell_of_kill(victim, heard)
        self._show.tick(self._elapsed())
        if self._elapsed() > PATIENCE_SECONDS:
            raise TimeoutError(f"the demo is not over after {PATIENCE_SECONDS} seconds")
        return len(heard)

    def _take(self, agent: Agent, said: m.Said) -> None:
        if self._is_early(said):
            self._early.append((agent, said))
            return
        self._tell(agent, said)
        match said:
            case m.Claimed():
                self._owners.add(agent.name)
                if said.took_over_from is not None:
                    self._tell(agent, measured(self._store.events(job_id=self._job_id)))
            case m.Finished():
                self._is_finished = True
            case _:
                return
        early, self._early = self._early, []
        for one in early:
            self._take(*one)

    def _is_early(self, said: m.Said) -> bool:
        """Whether we hear of an effect before its cause: they come through different pipes."""
        match said:
            case m.Held():
                return said.owner not in self._owners
            case m.Done():
                return not self._is_finished
            case _:
                return False

    def _chosen_from(self, heard: Heard) -> Agent | None:
        """The first owner, once it is in the middle of its work."""
        for agent, said in heard:
            if isinstance(said, m.Working) and said.step == FATAL_STEP and not self._has_killed:
                self._has_killed = True
                return agent
        return None

    def _tell_of_kill(self, agent: Agent, heard: Heard) -> None:
        last = [said for who, said in heard if who is agent and isinstance(said, m.Working)][-1]
        killed = m.Killed(pid=agent.pid, signal=signal.SIGKILL, step=last.step, steps=last.steps, note=last.note)
        self._tell(agent, killed)

    def _tell(self, agent: Agent, message: m.Happened) -> None:
        self._show.tell(m.Happening(elapsed=self._elapsed(), agent=agent.name, pid=agent.pid, message=message))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began_at


def measured(events: Iterable[Event]) -> m.TakenOver:
    """How long the takeover took, by the event log: from the last heartbeat of the dead owner to the next claim."""
    rest = iter(events)
    expired = next(event for event in rest if event.type == "expired")
    claimed = next(event for event in rest if event.type == "claimed")
    return m.TakenOver(
        dead=expired.data["owner"],
        ttl=expired.data["ttl_ms"] / 1_000,
        seconds_after_last_heartbeat=words.seconds_between(expired.data["heartbeat_at"], claimed.at),
        seconds_after_expiry=words.seconds_between(expired.data["ended_at"], claimed.at),
    )
