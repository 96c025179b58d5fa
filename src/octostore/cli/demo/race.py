"""Run the demo: five agents race, the winner is killed, another one finishes."""

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
Received: TypeAlias = list[tuple[Agent, m.AgentMessage]]


class Show(Protocol):
    """Shows the demo to the user."""

    def show(self, event: m.DemoEvent) -> None: ...

    def tick(self, elapsed: float) -> None:
        """Called several times a second."""


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
        self._early: Received = []

    def run(self) -> None:
        ready = 0
        while ready < len(self._team.pids):
            ready += self._step()
        self._team.start()
        while self._team.is_running:
            self._step()

    def _step(self) -> int:
        """Handle the next messages, and return how many there were."""
        received = self._team.receive(TICK_SECONDS)
        victim = self._choose_victim(received)
        if victim is not None:
            received += [(victim, message) for message in self._team.kill(victim)]
        for agent, message in received:
            self._handle(agent, message)
        if victim is not None:
            self._show_kill(victim, received)
        self._show.tick(self._elapsed())
        if self._elapsed() > PATIENCE_SECONDS:
            raise TimeoutError(f"the demo did not finish within {PATIENCE_SECONDS} seconds")
        return len(received)

    def _handle(self, agent: Agent, message: m.AgentMessage) -> None:
        if self._is_early(message):
            self._early.append((agent, message))
            return
        self._report(agent, message)
        match message:
            case m.Claimed():
                self._owners.add(agent.name)
                if message.took_over_from is not None:
                    self._report(agent, measure_takeover(self._store.events(job_id=self._job_id)))
            case m.Finished():
                self._is_finished = True
            case _:
                return
        early, self._early = self._early, []
        for one in early:
            self._handle(*one)

    def _is_early(self, message: m.AgentMessage) -> bool:
        """Whether its cause has not arrived yet: messages come through different pipes."""
        match message:
            case m.Held():
                return message.owner not in self._owners
            case m.Done():
                return not self._is_finished
            case _:
                return False

    def _choose_victim(self, received: Received) -> Agent | None:
        """The first owner, once it is in the middle of its work; it will be killed."""
        for agent, message in received:
            if isinstance(message, m.Working) and message.step == FATAL_STEP and not self._has_killed:
                self._has_killed = True
                return agent
        return None

    def _show_kill(self, agent: Agent, received: Received) -> None:
        last = [message for who, message in received if who is agent and isinstance(message, m.Working)][-1]
        killed = m.Killed(pid=agent.pid, signal=signal.SIGKILL, step=last.step, steps=last.steps, note=last.note)
        self._report(agent, killed)

    def _report(self, agent: Agent, message: m.DemoMessage) -> None:
        self._show.show(m.DemoEvent(elapsed=self._elapsed(), agent=agent.name, pid=agent.pid, message=message))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began_at


def measure_takeover(events: Iterable[Event]) -> m.TakenOver:
    """How long the takeover took according to the event log: from the dead owner's last heartbeat to the next claim."""
    rest = iter(events)
    expired = next(event for event in rest if event.type == "expired")
    claimed = next(event for event in rest if event.type == "claimed")
    return m.TakenOver(
        dead=expired.data["owner"],
        ttl=expired.data["ttl_ms"] / 1_000,
        seconds_after_last_heartbeat=words.seconds_between(expired.data["heartbeat_at"], claimed.at),
        seconds_after_expiry=words.seconds_between(expired.data["ended_at"], claimed.at),
    )
