"""The orchestrator's own interface: where its store is, what a session's state is, and how its replies differ."""

import inspect
from pathlib import Path

import pytest

import octostore
from octostore import Conflict, InvalidInput, LeaseLost, NotFound, Unreachable
from octostore.orchestrator import Orchestrator, hash_of, own_queue


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("enqueue_task", ["kind", "payload"]),
        ("claim_task", ["session_id", "agent", "kind"]),
        ("heartbeat", ["session_id", "lock_token"]),
        ("release_task", ["session_id", "task_id", "lock_token", "result"]),
        ("stale_recovery", ["agent"]),
        ("session_state", ["session_id"]),
        ("dead_letters", []),
        ("health", []),
    ],
)
def test_the_calls_of_the_contract(name: str, parameters: list[str]) -> None:
    call = getattr(Orchestrator, name)
    assert list(inspect.signature(call).parameters)[1 : 1 + len(parameters)] == parameters
    assert inspect.getdoc(call)


def test_the_environment_says_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "not there yet" / "50% #1?.db"
    monkeypatch.setenv("ORCH_DB_PATH", str(path))
    with Orchestrator.open() as orchestrator:
        orchestrator.enqueue_task("review", task_id="task")
    assert path.exists()
    with Orchestrator.open() as orchestrator:
        assert orchestrator.claim_task("s", "ann").task_id == "task"


def test_the_store_is_in_the_home_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCH_DB_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    Orchestrator.open().close()
    assert (tmp_path / ".openclaw/data/orchestrator.db").exists()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ORCH_DB_PATH", str(tmp_path / "file" / "orchestrator.db"))
    with pytest.raises(Unreachable, match="set ORCH_DB_PATH to another file"):
        Orchestrator.open()


def test_held_and_empty_are_different_replies(orchestrator: Orchestrator) -> None:
    assert orchestrator.claim_task("s", "ann").status == "empty"
    orchestrator.enqueue_task("review")
    claimed = orchestrator.claim_task("s", "ann")
    held = orchestrator.claim_task("s", "bob")
    assert (claimed.status, held.status, held.agent, held.lock_token) == ("claimed", "held", "ann", None)
    assert (held.retry_after_ms or 0) > 100_000
    assert (claimed.lock_token or "") not in repr(claimed)


def test_a_lost_reply_is_repeated(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review")
    first = orchestrator.claim_task("s", "ann", request_id="r")
    again = orchestrator.claim_task("s", "ann", request_id="r")
    assert (again.replayed, again.lock_token, again.task_id) == (True, first.lock_token, first.task_id)


def test_a_sessions_own_tasks_come_first_and_are_nobody_elses(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review", task_id="for-anybody", priority=1)
    orchestrator.enqueue_task("review", task_id="own", session_id="s")
    assert orchestrator.claim_task("t", "bob").task_id == "for-anybody"
    assert orchestrator.claim_task("u", "eve").status == "empty"
    assert orchestrator.claim_task("s", "ann").task_id == "own"


def test_only_one_kind_of_task(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("build", task_id="build")
    orchestrator.enqueue_task("review", task_id="review")
    assert orchestrator.claim_task("s", "ann", kind="review").task_id == "review"
    assert orchestrator.claim_task("t", "ann", "review").status == "empty"


def test_a_saved_state_keeps_the_fields_that_are_left_out(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review")
    token = orchestrator.claim_task("s", "ann").lock_token or ""
    first = orchestrator.save_state(
        "s", token, phase="executing", last_action="read", next_action="write", turn=1, memory_ref="notes.md"
    )
    second = orchestrator.save_state("s", token, last_action="wrote", turn=2, more={"files": [1, 2]})
    assert (second.phase, second.last_action, second.next_action, second.turn, second.memory_ref) == (
        "executing",
        "wrote",
        "write",
        2,
        "notes.md",
    )
    assert second.context["files"] == [1, 2]
    assert (second.checkpoint_seq or 0) > (first.checkpoint_seq or 0)
    rest = {name: value for name, value in second.context.items() if name != "context_hash"}
    assert second.context_hash == hash_of(rest) != first.context_hash
    assert orchestrator.save_state("s", token, context_hash="abc").context_hash == "abc"


def test_a_phase_that_cannot_follow_is_refused_and_changes_nothing(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review")
    token = orchestrator.claim_task("s", "ann").lock_token or ""
    orchestrator.save_state("s", token, phase="done", turn=1)
    with pytest.raises(Conflict, match="allowed: idle, planning"):
        orchestrator.save_state("s", token, phase="executing", turn=2)
    state = orchestrator.session_state("s")
    assert (state.phase, state.turn) == ("done", 1)


def test_only_the_sessions_owner_can_write(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review")
    task = orchestrator.claim_task("s", "ann")
    with pytest.raises(LeaseLost):
        orchestrator.save_state("s", "guessed", turn=1)
    with pytest.raises(LeaseLost):
        orchestrator.heartbeat("s", "guessed")
    with pytest.raises(LeaseLost):
        orchestrator.release_task("s", task.task_id or "", "guessed")
    with pytest.raises(NotFound):
        orchestrator.session_state("never")


def test_names_that_are_too_long_are_refused(orchestrator: Orchestrator) -> None:
    assert own_queue("s" * 56) == "session." + "s" * 56
    with pytest.raises(InvalidInput, match="57 bytes; for a session with tasks the limit is 56"):
        orchestrator.claim_task("s" * 57, "ann")


def test_dead_letters_are_only_those_of_tasks(orchestrator: Orchestrator) -> None:
    store = orchestrator.store
    store.enqueue("other", job_id="other")
    orchestrator.enqueue_task("review", task_id="shared")
    orchestrator.enqueue_task("review", task_id="own", session_id="s")
    for job_id in ("other", "shared", "own"):
        store.cancel(job_id)
    assert [letter.job_id for letter in orchestrator.dead_letters()] == ["own", "shared"]


def test_the_handler_cannot_block_the_heartbeat(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review", task_id="task")
    ages = []

    def handle(claim: octostore.HeldClaim) -> None:
        first = orchestrator.session_state("s").heartbeat_at
        while orchestrator.session_state("s").heartbeat_at == first:
            claim.check()
        ages.append(claim.remaining())

    assert orchestrator.work("s", "ann", handle, ttl=3, until_empty=True) == 1
    assert ages[0] > 0
    assert orchestrator.store.get_job("task").status == "done"


def test_a_task_can_limit_silence_like_any_claim(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review", task_id="task", session_id="s")
    assert orchestrator.claim_task("s", "ann", max_silence=60).status == "claimed"
    owner = orchestrator.store.get_job_owner("task")
    assert owner is not None
    assert (owner.max_silence, owner.stuck) == (60, False)
    orchestrator.enqueue_task("review", session_id="t")
    heard: list[float | None] = []
    orchestrator.work("t", "bob", lambda claim: heard.append(claim.reply.max_silence), max_silence=60, until_empty=True)
    assert heard == [60]


def test_an_agent_learns_of_a_stop_request_and_of_a_cancelled_task(orchestrator: Orchestrator) -> None:
    orchestrator.enqueue_task("review", task_id="task", session_id="s")
    token = orchestrator.claim_task("s", "ann").lock_token or ""
    orchestrator.store.request_stop("task", reason="the branch is gone")
    assert orchestrator.heartbeat("s", token).stop_requested["task"].reason == "the branch is gone"
    orchestrator.store.cancel("task")
    with pytest.raises(LeaseLost):
        orchestrator.heartbeat("s", token)
    orchestrator.enqueue_task("review", task_id="next", session_id="s")
    assert orchestrator.claim_task("s", "ann").task_id == "next"
