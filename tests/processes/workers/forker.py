"""Uses a store, forks, and uses it in both processes. Reports the claims that were acknowledged."""

import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import octostore
from octostore.stores.postgres import backend as postgres_backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.listener import Listener
from tests.processes.workers.talk import say
from tests.support.embedded import local_store, waiting_threads
from tests.support.processes import until

FORKS = 8
PATIENCE_SECONDS = 8.0
"""Less than a store waits for a lock: a child that needs longer only got through by chance."""


class Child:
    """A forked process that runs `work` and then ends at once; the test hears what it says."""

    def __init__(self, work: Callable[[], object]) -> None:
        ended, self._is_running = os.pipe()
        self._ended = ended
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        os.close(self._is_running)

    def wait(self) -> str:
        """How it ended. Its end of the pipe closes when it ends, whatever it was doing."""
        has_ended = select.select([self._ended], [], [], PATIENCE_SECONDS)[0]
        if not has_ended:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._ended)
        if not has_ended:
            return "hangs"
        return "fine" if code == 0 else f"exit {code}"


def claim(store: octostore.OctoStore, job_id: str) -> None:
    reply = store.claim_job(job_id, f"process {os.getpid()}")
    assert store.get_job(job_id).owner == reply.owner
    say({"claimed": job_id, "token": reply.fencing_token, "status": reply.status})


def both_go_on(store: octostore.OctoStore) -> None:
    claim(store, "parent-before")
    go, send_go = os.pipe()

    def in_child() -> None:
        claim(store, "child-1")
        os.read(go, 1)
        claim(store, "child-2")

    child = Child(in_child)
    claim(store, "parent-meanwhile")
    os.write(send_go, b".")
    say({"child": child.wait()})
    claim(store, "parent-after")


def parent_closes_first(store: octostore.OctoStore) -> None:
    """Closing the last connection removes the write-ahead log, but not while a child still writes to it."""
    claim(store, "parent-before")
    go, send_go = os.pipe()
    ready, is_ready = os.pipe()

    def in_child() -> None:
        claim(store, "child-1")
        os.write(is_ready, b".")
        os.read(go, 1)
        claim(store, "child-2")

    child = Child(in_child)
    os.read(ready, 1)
    store.close()
    os.write(send_go, b".")
    say({"child": child.wait()})


def while_threads_write(store: octostore.OctoStore) -> None:
    """Whatever the parent's other threads are doing, the child's store is in a clean state."""
    stop = threading.Event()

    def hammer(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store.claim_job(f"{name}-{number}")
            store.get_job(f"{name}-{number}")

    threads = [threading.Thread(target=hammer, args=(f"hammer-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(FORKS):
            how = Child(lambda number=number: claim(store, f"child-{number}")).wait()  # type: ignore[misc]
            say({"child": how})
            if how != "fine":
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    claim(store, "parent-after")


def while_threads_ask(store: octostore.OctoStore) -> None:
    stop = threading.Event()

    def hammer(name: str) -> None:
        while not stop.is_set():
            store.get_job(name)

    threads = [threading.Thread(target=hammer, args=(f"hammer-{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(4 * FORKS):
        how = Child(lambda: store.get_job("child")).wait()
        say({"child": how})
        if how != "fine":
            break
    stop.set()
    for thread in threads:
        thread.join()


def fork_gets_its_turn(store: octostore.OctoStore) -> None:
    """A fork does not wait until all the threads that use the store happen to pause."""
    stop = threading.Event()

    def hammer(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store.claim_job(f"{name}-{number}")
            store.get_job(f"{name}-{number}")
            done.append(name)

    done: list[str] = []
    threads = [threading.Thread(target=hammer, args=(f"hammer-{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        before = len(done)
        child = Child(lambda: None)
        meanwhile = len(done) - before
        say({"child": child.wait(), "meanwhile": meanwhile})
    stop.set()
    for thread in threads:
        thread.join()


def threads_fork_at_once(store: octostore.OctoStore) -> None:
    claim(store, "parent-before")
    # Threads now switch so often that each gets in between any two steps of another.
    sys.setswitchinterval(1e-6)

    def fork_often() -> None:
        for _ in range(50):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

    threads = [threading.Thread(target=fork_often, daemon=True) for _ in range(6)]
    threads.append(threading.Thread(target=claim, args=(store, "parent-meanwhile"), daemon=True))
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 3 * PATIENCE_SECONDS  # 300 forks take a second, more on a busy machine
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            say({"child": "hangs"})
            os._exit(0)
    say({"child": "fine"})
    claim(store, "parent-after")


def child_does_not_use_it(store: octostore.OctoStore) -> None:
    """It exits normally, with everything that Python does at exit."""
    claim(store, "parent-before")
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    say({"child": "fine" if os.waitpid(pid, 0)[1] == 0 else "failed"})
    claim(store, "parent-after")


def child_ends_as_programs_do(store: octostore.OctoStore) -> None:
    claim(store, "parent-before")
    pid = os.fork()
    if pid == 0:
        claim(store, "child")
        sys.exit(0)
    say({"child": "fine" if os.waitpid(pid, 0)[1] == 0 else "failed"})
    claim(store, "parent-after")


def child_closes_it(store: octostore.OctoStore) -> None:
    """A child that closes the store, used or not, closes only its own."""
    claim(store, "parent-before")
    say({"child": Child(store.close).wait()})
    claim(store, "parent-meanwhile")

    def in_child() -> None:
        claim(store, "child")
        store.close()

    say({"child": Child(in_child).wait()})
    claim(store, "parent-after")


def grandchild(store: octostore.OctoStore) -> None:
    claim(store, "parent-before")

    def in_child() -> None:
        claim(store, "child")
        say({"child": Child(lambda: claim(store, "grandchild")).wait()})
        claim(store, "child-after")

    say({"child": Child(in_child).wait()})
    claim(store, "parent-after")


def pool_of_processes(store: octostore.OctoStore) -> None:
    claim(store, "parent-before")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=claim, args=(store, f"child-{number}")) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_SECONDS)
        say({"child": "fine" if process.exitcode == 0 else f"exit {process.exitcode}"})
    claim(store, "parent-after")


def child_leaves_a_hold(store: octostore.OctoStore, *, by_raising: bool) -> None:
    with suppress(ZeroDivisionError), store.hold("held", ttl=60) as held:
        say({"claimed": "held", "token": held.fencing_token, "status": "claimed"})
        pid = os.fork()
        if pid == 0:
            if by_raising:
                raise ZeroDivisionError
        else:
            say({"child": "fine" if os.waitpid(pid, 0)[1] == 0 else "failed"})
            held.check()
            owner = store.get_job_owner("held")
            say({"still_ours": owner is not None and owner.fencing_token == held.fencing_token})
    if pid == 0:
        os._exit(0)
    say({"events": [event.type for event in store.events(job_id="held")]})


def child_leaves_a_session(store: octostore.OctoStore) -> None:
    with store.open_session("parent", ttl=60) as session:
        store.claim_job("bound", session_id=session.session_id)
        pid = os.fork()
        if pid != 0:
            say({"child": "fine" if os.waitpid(pid, 0)[1] == 0 else "failed"})
            say({"still_ours": store.get_session(session.session_id).status == "open"})
            say({"still_bound": store.get_session(session.session_id).jobs == ["bound"]})
    if pid == 0:
        os._exit(0)


def child_has_no_connection_of_its_parent(store: octostore.OctoStore) -> None:
    """On a server, with a call that waits: the server must notice when the parent is gone, whatever its children do."""
    claim(store, "held")
    waiting = threading.Thread(target=store.claim_job, args=("held",), kwargs={"wait": 60}, daemon=True)
    waiting.start()
    ours: Any = store._port
    # While the other call waits on its own connection.
    until(lambda: store.get_job("held").status == "claimed" and len(ours._connections._sockets) == connections() == 2)

    def in_child() -> None:
        assert connections() == 0
        assert store.get_job("held").status == "claimed"
        assert connections() == 1

    say({"child": Child(in_child).wait()})


def parent_waits(store: octostore.OctoStore) -> None:
    """In PostgreSQL: the parent listens for notifications."""
    lease_id = store.claim_job("held").lease_id or ""
    statuses: list[str] = []
    waiting = threading.Thread(target=lambda: statuses.append(store.claim_job("held", "waiter", wait=60).status))
    waiting.start()
    until(lambda: is_listening(store) and waiting_threads() == 1)
    before = backends(store)
    say({"child": Child(lambda: claim(store, "child")).wait()})
    store.release_job("held", lease_id)
    waiting.join(PATIENCE_SECONDS)
    say({"woken": statuses[0] if statuses else "never"})
    say({"connections": "the same" if backends(store) == before else "others"})


def while_a_thread_starts_to_listen(store: octostore.OctoStore) -> None:
    """In PostgreSQL: a thread is starting to listen when another one forks."""
    claim(store, "held")
    began = threading.Event()

    def begin_slowly(*args: Any) -> Listener:
        began.set()
        time.sleep(0.3)
        return Listener(*args)

    setattr(postgres_backend, "Listener", begin_slowly)  # noqa: B010  # mypy knows better than to allow it
    waiting = threading.Thread(target=lambda: store.claim_job("held", "waiter", wait=60), daemon=True)
    waiting.start()
    began.wait()
    say({"child": Child(lambda: claim(store, "child")).wait()})
    claim(store, "parent-after")


def child_outlives_its_parent(store: octostore.OctoStore) -> None:
    """In PostgreSQL: both processes wait until they are killed."""
    claim_quietly = store.claim_job("held")
    assert store.get_job("held").owner == claim_quietly.owner
    waiting = threading.Thread(target=lambda: store.claim_job("held", "waiter", wait=600), daemon=True)
    waiting.start()
    until(lambda: is_listening(store) and waiting_threads() == 1)
    pid = os.fork()
    if pid == 0:
        signal.pause()
    say({"child": pid, "backends": sorted(backends(store) | {one.info.backend_pid for one in idle_readers(store)})})
    signal.pause()


def is_listening(store: octostore.OctoStore) -> bool:
    listener = postgres_of(store)._listener
    return listener is not None and listener.is_connected


def backends(store: octostore.OctoStore) -> set[int]:
    """The PostgreSQL processes behind our two connections: the writer's and the listener's."""
    backend = postgres_of(store)
    assert backend._writer is not None
    assert backend._listener is not None
    assert backend._listener._connection is not None
    return {connection.info.backend_pid for connection in (backend._writer, backend._listener._connection)}


def idle_readers(store: octostore.OctoStore) -> list[Any]:
    until(lambda: bool(postgres_of(store)._readers.idle))
    return postgres_of(store)._readers.idle


def postgres_of(store: octostore.OctoStore) -> PostgresBackend:
    backend = local_store(store).engine.backend
    assert isinstance(backend, PostgresBackend)
    return backend


def connections() -> int:
    """The number of connected sockets of this process."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            one = socket.socket(fileno=int(path.name))
            try:
                found += one.family == socket.AF_INET and bool(one.getpeername())
            finally:
                one.detach()
    return found


def another_store_at_its_path(store: octostore.OctoStore) -> None:
    """The child opens whatever is at the path by then, which is not its parent's store."""
    claim(store, "parent-before")
    path = Path(local_store(store).place)
    files, aside = [path, Path(f"{path}-wal"), Path(f"{path}-shm")], path.parent / "aside"
    aside.mkdir()
    with octostore.connect(f"sqlite:///{path.with_suffix('.other')}") as another:
        another.claim_job("other")

    def in_child() -> None:
        for file in files:
            file.rename(aside / file.name)
        path.with_suffix(".other").rename(path)
        try:
            store.claim_job("child")
        except octostore.Unreachable as error:
            say({"reason": error.reason})
        for file in files:
            (aside / file.name).rename(file)

    say({"child": Child(in_child).wait()})
    claim(store, "parent-after")


SCENES: dict[str, Callable[[octostore.OctoStore], None]] = {
    scene.__name__: scene
    for scene in (
        both_go_on,
        parent_closes_first,
        while_threads_write,
        while_threads_ask,
        fork_gets_its_turn,
        threads_fork_at_once,
        child_does_not_use_it,
        child_ends_as_programs_do,
        child_closes_it,
        grandchild,
        pool_of_processes,
        child_leaves_a_session,
        child_has_no_connection_of_its_parent,
        parent_waits,
        while_a_thread_starts_to_listen,
        child_outlives_its_parent,
        another_store_at_its_path,
    )
} | {
    "child_leaves_a_hold": lambda store: child_leaves_a_hold(store, by_raising=False),
    "child_leaves_a_hold_by_raising": lambda store: child_leaves_a_hold(store, by_raising=True),
}


if __name__ == "__main__":
    target = sys.argv[1]
    SCENES[sys.argv[2]](octostore.connect(target if "://" in target else f"sqlite:///{target}"))
