"""A whole system: servers on one store, clients, a network, and a seed that decides everything."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from octostore.core.errors import OctoStoreError
from octostore.wire.token_files import write_token_file
from octostore.wire.tokens import new_token
from tests.simulation.checks import LOG, SOUND, PromiseBroken, Promises
from tests.simulation.client import THINK_SECONDS, Client
from tests.simulation.faults import Fault, Faults
from tests.simulation.loop import SimulatedLoop
from tests.simulation.mix import Role, named_roles
from tests.simulation.network import Network, SimulatedSession, SimulatedSocket
from tests.simulation.patches import WallClock, simulated
from tests.simulation.replaying import differences
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.scripts import TTLS
from tests.simulation.server import SWEEP_SECONDS, Server
from tests.simulation.storage import Storage
from tests.simulation.story import Step, Story
from tests.simulation.waits import BOUNDED, Waits

FREED = "every claim of a dead owner ends"
HOUR = 3_600.0
STOP_SECONDS = 1_500.0
"""Every client finishes its round within this time after the last fault."""
TOKENS = {"ann": new_token(), "bob": new_token()}


class Plan(NamedTuple):
    """Everything that decides a run: the same plan is the same run."""

    seed: int
    hours: float = 1.0
    clients: int = 20
    store: str = "memory"
    pace: float = 1.0
    """How much less clients pause between rounds."""
    mute: frozenset[str] = frozenset()
    """Promises that are not checked, to find other failures."""
    only_clients: frozenset[str] | None = None
    only_rounds: frozenset[str] | None = None
    only_faults: frozenset[str] | None = None


class Result(NamedTuple):
    plan: Plan
    broken: PromiseBroken | None
    at: float
    digest: str
    steps: list[Step]
    clients: list[str]
    rounds: list[str]
    """The names of the clients' rounds."""
    faults: list[str]
    """The names of the faults that happened."""
    operations: int
    fault_counts: Counter[str]
    promise_counts: Counter[str]
    hours: float
    seconds: float
    """In real time."""


def run(plan: Plan) -> Result:
    with tempfile.TemporaryDirectory(prefix="octostore-simulation-", dir=_fast_folder()) as folder:
        return World(plan, Path(folder)).run()


def run_without_story(plan: Plan) -> Result:
    """For subprocesses, which would have to send it."""
    return run(plan)._replace(steps=[])


def _fast_folder() -> str | None:
    """In memory, because syncing costs nothing there and the simulator does not test the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class World:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.scheduler = Scheduler(plan.seed)
        self.story = Story(self.scheduler)
        self.faults = Faults(plan.seed, self.story, plan.only_faults)
        self.network = Network(self.scheduler, self.faults, self.story)
        self.wall_clock = WallClock(self.scheduler)
        self.checks = Promises(self.scheduler, self.story, plan.mute)
        self.waits = Waits(self.scheduler, self.checks)
        self.network.observer = self.waits
        self.storage: Storage
        self.is_stopping = False
        self.operations = 0
        self._folder = folder
        self._clients: dict[str, Process] = {}
        self._roles = {
            name: role
            for name, role in named_roles(plan.clients)
            if plan.only_clients is None or name in plan.only_clients
        }
        self._busy: dict[str, Process] = {}
        self._loops: list[SimulatedLoop] = []
        self._rounds: list[str] = []
        self._round_numbers: Counter[str] = Counter()
        chance = self.faults.stream("world")
        self._trouble_seconds = chance.choice([25.0, 60.0, 180.0])
        self._servers = chance.choice([1, 2, 2, 3])

    def run(self) -> Result:
        SimulatedSocket.network = SimulatedSession.network = self.network
        SimulatedSocket.scheduler = SimulatedSession.scheduler = self.scheduler
        started = time.perf_counter()
        lines = "\n".join(f"{name} read,claim,admin {token}" for name, token in TOKENS.items())
        write_token_file(self._folder / "tokens", lines)
        with simulated(self.scheduler, self.wall_clock, self.plan.seed, SimulatedSocket, SimulatedSession):
            try:
                self._live()
            finally:
                self._close()
        return self._result(time.perf_counter() - started)

    # The run

    def _live(self) -> None:
        path = None if self.plan.store == "memory" else self._folder / "store.db"
        self.storage = Storage(self.scheduler, self.faults, self.story, path)
        self.storage.witness = self.checks
        self.storage.on_trouble = self._on_store_trouble
        for number in range(1, self._servers + 1):
            server = Server(f"server-{number}", self.scheduler, self.network, self.storage.open, self._folder)
            self.network.servers.append(server)
            server.start()
        for name in self._roles:
            self._start_client(name)
        self.scheduler.spawn(Process("chaos"), "chaos", self._trouble)
        self.scheduler.run(self.plan.hours * HOUR)
        if self.scheduler.failure is None:
            self._wind_down()
        if self.scheduler.failure is None:
            self._check_final_state()

    def _on_store_trouble(self) -> None:
        self.waits.store_troubled_at = self.scheduler.now

    def _wind_down(self) -> None:
        """No more faults: clients finish, and then every claim must end."""
        self.story.add("world", "no more faults; clients stop")
        self.is_stopping = self.faults.is_off = True
        self.storage.gone_until = 0.0
        for process in [*self._clients.values(), *(server.process for server in self.network.servers)]:
            self.scheduler.resume(process)
        for server in self.network.servers:
            if server.process.is_dead:
                server.start()
        until = self.scheduler.now + STOP_SECONDS / min(1.0, self.plan.pace)
        while self._still_busy() and self.scheduler.now < until and self.scheduler.failure is None:
            self.scheduler.run(self.scheduler.now + 30)
        busy = self._still_busy()
        self.checks.hold(BOUNDED, not busy, f"{', '.join(busy)} did not finish", *busy)
        self.scheduler.run(self.scheduler.now + max(TTLS) + SWEEP_SECONDS + 30)

    def _still_busy(self) -> list[str]:
        return [name for name, process in self._busy.items() if not process.is_dead]

    def _check_final_state(self) -> None:
        for key, facts in self.checks.facts.items():
            text = f"{key} (token {facts.token}) is still claimed although all clients have ended"
            self.checks.hold(FREED, not facts.is_claimed, text, key)
        for difference in differences(self.storage, self.checks.log):
            self.checks.broken(LOG, difference)
        self.checks.counts[LOG] += 1

    def _close(self) -> None:
        self.scheduler.close()
        for loop in [*self._loops, *(loop for server in self.network.servers for loop in server.loops)]:
            loop.abandon()
        self.storage.close()

    def _result(self, seconds: float) -> Result:
        failure = self.scheduler.failure
        if failure is not None and not isinstance(failure, PromiseBroken):
            failure = _crash(failure)
        return Result(
            plan=self.plan,
            broken=failure,
            at=self.scheduler.now,
            digest=self.story.digest(),
            steps=self.story.steps,
            clients=[*self._roles],
            rounds=self._rounds,
            faults=self.faults.struck,
            operations=self.operations,
            fault_counts=self.faults.counts,
            promise_counts=self.checks.counts,
            hours=self.scheduler.now / HOUR,
            seconds=seconds,
        )

    # Clients

    def _start_client(self, name: str) -> None:
        role, process = self._roles[name], Process(name)
        self._clients[name] = self._busy[name] = process
        client = Client(self, name, process, is_embedded=role.is_embedded, token=TOKENS[role.principal])
        if role.async_scripts:
            loop = SimulatedLoop(self.scheduler)
            self._loops.append(loop)
            self.scheduler.spawn(process, name, lambda: loop.run_process(self._run_async(client, role)))
        else:
            self.scheduler.spawn(process, name, lambda: self._run_client(client, role))

    def _run_client(self, client: Client, role: Role) -> None:
        client.connect()
        while not self.is_stopping:
            is_wanted = self._next_round(client)
            self.scheduler.sleep(client.chance.uniform(*THINK_SECONDS) / self.plan.pace)
            if is_wanted and not self.is_stopping:
                try:
                    client.pick(role.scripts)(client)
                except OctoStoreError as error:
                    client.say(f"ends with {type(error).__name__}")
        self._busy.pop(client.name, None)

    async def _run_async(self, client: Client, role: Role) -> None:
        client.connect_async()
        while not self.is_stopping:
            is_wanted = self._next_round(client)
            await asyncio.sleep(client.chance.uniform(*THINK_SECONDS) / self.plan.pace)
            if is_wanted and not self.is_stopping:
                try:
                    await client.pick(role.async_scripts)(client)
                except OctoStoreError as error:
                    client.say(f"ends with {type(error).__name__}")
        self._busy.pop(client.name, None)
        # The loop keeps running, because claims it gave up on may still have to be undone.
        await asyncio.sleep(10 * HOUR)

    def _next_round(self, client: Client) -> bool:
        """Each round has its own random stream, so that leaving one out does not change the others."""
        self._round_numbers[client.name] += 1
        name = f"{client.name} round {self._round_numbers[client.name]}"
        client.chance = self.faults.stream(name)
        if self.plan.only_rounds is not None and name not in self.plan.only_rounds:
            return False
        self._rounds.append(name)
        return True

    # Faults

    def _trouble(self) -> None:
        stream = self.faults.stream("trouble")
        while True:
            self.scheduler.sleep(stream.expovariate(1 / self._trouble_seconds))
            fault = self.faults.of_world()
            if fault is not None:
                self._strike(fault)

    def _strike(self, fault: Fault) -> None:
        chance = fault.chance
        match fault.kind:
            case "pause a server":
                server = chance.choice(self.network.servers)
                self._pause(server.process, chance.choice([1, 8, 40]) * chance.random(), fault)
            case "kill a server" | "restart a server":
                self._end_server(chance.choice(self.network.servers), fault)
            case "pause a client" if self._clients:
                process = chance.choice([*self._clients.values()])
                self._pause(process, chance.choice([1, 15, 150]) * chance.random(), fault)
            case "kill a client" if self._clients:
                self._kill_client(chance.choice([*self._clients]), fault)
            case "the store is gone":
                seconds = chance.choice([0.5, 6, 20]) * chance.random()
                self.story.add("world", f"! the store is gone for {seconds:.1f} s [{fault.name}]")
                self.storage.gone_until = self.scheduler.now + seconds
            case "the clock is set back":
                seconds = chance.choice([1, 60, 3_600]) * chance.random()
                self.story.add("world", f"! the clock is set back by {seconds:.1f} s [{fault.name}]")
                self.wall_clock.ahead -= seconds
            case "the clock is set forward":
                seconds = chance.choice([1, 60, 3_600]) * chance.random()
                self.story.add("world", f"! the clock is set forward by {seconds:.1f} s [{fault.name}]")
                self.wall_clock.ahead += seconds
                self.checks.clock_jumps_forward()

    def _pause(self, process: Process, seconds: float, fault: Fault) -> None:
        if process.is_paused or process.is_dead:
            return
        self.story.add(process.name, f"! is paused for {seconds:.1f} s [{fault.name}]")
        self.scheduler.pause(process)
        process.paused_seconds += seconds
        self.waits.troubled_at[process.name] = self.scheduler.now + seconds

        def resume() -> None:
            if process.is_paused:
                self.story.add(process.name, "continues")
                self.scheduler.resume(process)

        self.scheduler.at(self.scheduler.now + seconds, resume)

    def _end_server(self, server: Server, fault: Fault) -> None:
        if not server.is_open or server.process.is_paused:
            return
        self.waits.troubled_at[server.name] = self.scheduler.now
        if fault.kind == "kill a server":
            self.story.add(server.name, f"! is killed [{fault.name}]")
            self.scheduler.kill(server.process)
        else:
            self.story.add(server.name, f"! gets SIGTERM [{fault.name}]")
            server.stop()
        self._later(fault.chance.uniform(1, 30), lambda: self._start_server(server))

    def _start_server(self, server: Server) -> None:
        if server.process.is_dead:
            self.story.add(server.name, "starts")
            server.start()
        else:
            self._later(1, lambda: self._start_server(server))

    def _kill_client(self, name: str, fault: Fault) -> None:
        process = self._clients[name]
        if process.is_dead:
            return
        self.story.add(name, f"! is killed [{fault.name}]")
        self.scheduler.kill(process)

        def start() -> None:
            if not self.is_stopping:
                self.story.add(name, "starts again, without memory")
                self._start_client(name)

        self._later(fault.chance.uniform(1, 120), start)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.scheduler.at(self.scheduler.now + seconds, call)


def _crash(error: BaseException) -> PromiseBroken:
    broken = PromiseBroken(SOUND, f"{type(error).__name__}: {error}", set())
    broken.__cause__ = error
    return broken
