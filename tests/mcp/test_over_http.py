"""MCP over HTTP: an agent's calls alternate between two servers on one store, and neither keeps state."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import cycle
from subprocess import PIPE
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from octostore.mcp.http.tools import TOOLS
from octostore.mcp.tools import OPERATOR_TOOLS
from tests.support.async_as_sync import Loop
from tests.support.documents import blocks_of, check_printed, replaced
from tests.support.mcp import Mode, ToolReply
from tests.support.mcp_http import HttpAgent, calling, message
from tests.support.processes import ROOT, until
from tests.support.server import ServerProcess
from tests.support.starting import run

LIST_CHARACTERS_MAX = 15_000
NAMES = [tool.name for tool in TOOLS]
OPERATOR_NAMES = [tool.name for tool in OPERATOR_TOOLS]
READING = ["get_job_owner", "get_job", "list_claimed_jobs", "read_events", "queue_status"]

pytestmark = pytest.mark.xdist_group("mcp over http")


class Agent:
    """An agent that does not know which of the servers it talks to."""

    def __init__(self, agents: list[HttpAgent]) -> None:
        self._agents = agents
        self._turns = cycle(agents)

    def call(self, tool: str, **arguments: Any) -> ToolReply:
        return next(self._turns).call(tool, **arguments)

    def do(self, tool: str, **arguments: Any) -> Any:
        reply = self.call(tool, **arguments)
        assert not reply.is_error, reply
        return reply.document

    def refused(self, tool: str, **arguments: Any) -> Any:
        reply = self.call(tool, **arguments)
        assert reply.is_error, reply
        return reply.document

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in next(self._turns).tools()]

    @property
    def said(self) -> str:
        return "".join(text for agent in self._agents for text in agent.said)


class World:
    def __init__(self, loop: Loop, first: ServerProcess, second: ServerProcess, at_end: ExitStack) -> None:
        self.servers = (first, second)
        self._loop = loop
        self._at_end = at_end
        self.ann = self.agent("ann")
        self.bob = self.agent("bob")

    def agent(self, name: str, *scopes: str, prefix: str = "", mode: Mode = "auto") -> Agent:
        token = self.servers[0].new_token(name, *scopes, prefix=prefix)
        agents = [HttpAgent(self._loop, server, token, mode) for server in self.servers]
        return Agent([self._at_end.enter_context(agent) for agent in agents])

    def new_name(self, what: str = "job") -> str:
        return f"{what}-{uuid4().hex[:8]}"

    def job(self, job_id: str) -> Any:
        return self.servers[0].get(f"/jobs/{job_id}").json


@pytest.fixture(scope="module")
def world(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    with ServerProcess(home) as first, ServerProcess(home) as second, ExitStack() as at_end:
        yield World(loop, first, second, at_end)
        first.check_has_not_failed()
        second.check_has_not_failed()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_job_from_claim_to_end(world: World, mode: Mode) -> None:
    cid, job = world.agent(f"cid-{mode}", mode=mode), world.new_name()
    claimed = cid.do("claim_job", job_id=job, metadata={"branch": "fix"})
    assert (claimed["status"], claimed["owner"], claimed["attempt"]) == ("claimed", f"cid-{mode}", 1)
    handle = claimed["handle"]
    assert world.bob.do("claim_job", job_id=job)["status"] == "held"
    assert cid.do("report_progress", handle=handle, note="testing", percent=40)["job_id"] == job
    owner = world.bob.do("get_job_owner", job_id=job)
    assert owner["claim"]["progress"]["note"] == "testing"
    assert owner["claim"]["host"] == "127.0.0.1"
    assert "pid" not in owner["claim"]
    assert cid.do("checkpoint", handle=handle, data={"step": 3})["job_id"] == job
    ending = {"handle": handle, "outcome": "done", "result": {"pr": 77}}
    assert cid.do("release_job", **ending) == cid.do("release_job", **ending)
    assert world.bob.do("claim_job", job_id=job)["result"] == {"pr": 77}


def test_every_call_with_the_handle_renews_the_claim_and_says_when_it_ends(world: World) -> None:
    job = world.new_name()
    claimed = world.ann.do("claim_job", job_id=job)
    handle, ends_at = claimed["handle"], moment(claimed["expires_at"])
    assert ends_at - moment(claimed["claimed_at"]) == timedelta(seconds=600)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("report_progress", {"handle": handle}),
        ("report_progress", {"handle": handle, "note": "n"}),
        ("checkpoint", {"handle": handle, "data": 1}),
        ("my_claims", {"handles": [handle]}),
    ]
    for tool, arguments in calls:
        reply = world.ann.do(tool, **arguments)
        renewed = moment((reply["claims"][0] if "claims" in reply else reply)["expires_at"])
        assert renewed > ends_at, tool
        assert moment(world.job(job)["claim"]["expires_at"]) == renewed
        ends_at = renewed


def test_a_handle_works_only_for_its_principal(world: World) -> None:
    job = world.new_name()
    handle = world.ann.do("claim_job", job_id=job)["handle"]
    before = world.job(job)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("report_progress", {"handle": handle, "note": "mine"}),
        ("checkpoint", {"handle": handle, "data": "mine"}),
        ("release_task", {"handle": handle}),
        ("release_job", {"handle": handle}),
    ]
    alive = [world.bob.refused(tool, **arguments) for tool, arguments in calls]
    assert alive == [refused_claim(handle)] * len(calls)
    assert world.job(job) == before
    world.agent("ann").do("release_job", handle=handle)  # with another token of the same principal
    assert [world.bob.refused(tool, **arguments) for tool, arguments in calls] == alive  # nobody learns that it ended
    name, mark, seal = handle.split("~")
    forged = [f"{name}~{int(mark) + 1}~{seal}", f"{name}x~{mark}~{seal}", f"{name}~{mark}~{seal[:-1]}", f"{handle}0"]
    for wrong in (*forged, "", job, f"{name}~{mark}", "~~~", "é~1~é"):
        assert world.ann.refused("report_progress", handle=wrong) == refused_claim(wrong)


def refused_claim(handle: str) -> dict[str, str]:
    """The same for every wrong handle, wherever it comes from."""
    how = "pass it exactly as the reply to your claim returned it, with a token of the same principal"
    return {
        "error": f"handle {handle!r} is not the handle of any of your claims: {how}",
        "code": "invalid_input",
        "details": "Nothing was changed. Correct the arguments and call again.",
        "field": "handle",
    }


def test_wrong_handles_among_many_are_reported_and_the_others_are_renewed(world: World) -> None:
    jobs = [world.new_name() for _ in range(3)]
    claims = [world.ann.do("claim_job", job_id=job) for job in jobs]
    handles = [claim["handle"] for claim in claims]
    strange = world.bob.do("claim_job", job_id=world.new_name())["handle"]
    session = world.ann.do("open_session", session_id=world.new_name("session"))["handle"]
    wrong = [strange, "cut~off", session]
    reply = world.ann.do("my_claims", handles=[wrong[0], handles[0], wrong[1], *handles[1:], wrong[2]])
    assert "`invalid`" in reply["next"]
    states = {state["handle"]: state for state in reply["claims"]}
    for claim in claims:
        state = states[claim["handle"]]
        assert (state["status"], state["job_id"]) == ("claimed", claim["job_id"])
        assert moment(state["expires_at"]) > moment(claim["expires_at"])
    assert [states[handle].keys() for handle in wrong] == [{"handle", "status", "why"}] * 3
    assert {states[handle]["status"] for handle in wrong} == {"invalid"}
    assert [states[handle]["why"] for handle in wrong[:2]] == [refused_claim(handle)["error"] for handle in wrong[:2]]
    assert "is the handle of a session" in states[session]["why"]
    assert "next" not in world.ann.do("my_claims", handles=handles)


def test_a_handle_of_a_claim_is_not_one_of_a_session(world: World) -> None:
    claim = world.ann.do("claim_job", job_id=world.new_name())["handle"]
    session = world.ann.do("open_session", session_id=world.new_name("session"))["handle"]
    for tool, handle, kind, needed in (
        ("close_session", claim, "claim", "session, as open_session returned it"),
        ("report_progress", session, "session", "claim, as the reply to your claim returned it"),
    ):
        refusal = world.ann.refused(tool, handle=handle)
        assert refusal["code"] == "invalid_input"
        assert refusal["error"] == f"handle {handle!r} is the handle of a {kind}: pass that of a {needed}"
        other = world.bob.refused(tool, handle=handle)  # who does not learn what it is
        assert other["error"].startswith(f"handle {handle!r} is not the handle of any of your ")


def test_a_claim_that_has_expired_is_lost_and_the_successor_continues(world: World) -> None:
    job = world.new_name()
    handle = world.ann.do("claim_job", job_id=job, ttl=1)["handle"]
    world.ann.do("checkpoint", handle=handle, data={"step": 3})
    taken = world.bob.do("claim_job", job_id=job, wait=30)
    assert (taken["status"], taken["checkpoint"], taken["attempt"]) == ("claimed", {"step": 3}, 2)
    for tool, more in (("report_progress", {}), ("checkpoint", {"data": 4}), ("release_job", {"outcome": "done"})):
        lost = world.ann.refused(tool, handle=handle, **more)
        assert (lost["code"], lost["ended"]["how"], lost["holder"]["owner"]) == ("lease_lost", "expired", "bob")
    (claim,) = world.ann.do("my_claims", handles=[handle])["claims"]
    assert (claim["status"], claim["holder"]["owner"]) == ("lost", "bob")
    assert world.bob.do("report_progress", handle=taken["handle"])["job_id"] == job


def test_a_claim_that_was_forgotten_is_lost(world: World) -> None:
    job = world.new_name()
    first = world.ann.do("claim_job", job_id=job)["handle"]
    world.ann.do("release_job", handle=first)
    for _ in range(6):  # more than the job remembers
        handle = world.bob.do("claim_job", job_id=job)["handle"]
        world.bob.do("release_job", handle=handle)
    assert world.ann.refused("report_progress", handle=first)["code"] == "lease_lost"


def test_no_lease_leaves_the_server(world: World) -> None:
    job, session = world.new_name(), world.new_name("session")
    dan = world.agent("dan", "admin")
    opened = dan.do("open_session", session_id=session)
    claims = [dan.do("claim_job", job_id=job), dan.do("claim_job", job_id=world.new_name(), session_id=session)]
    for claim in claims:
        dan.do("report_progress", handle=claim["handle"], note="n")
    dan.do("save_session", handle=opened["handle"], context={})
    for tool, arguments in (
        ("get_job", {"job_id": job}),
        ("list_claimed_jobs", {}),
        ("read_events", {"details": True}),
    ):
        dan.do(tool, **arguments)
    assert "lease_id" not in dan.said
    for server in world.servers:
        assert "lease" not in server.log


def test_a_claim_that_is_repeated_gets_the_same_handle(world: World) -> None:
    job = world.new_name()
    first, second = [world.ann.do("claim_job", job_id=job, request_id=f"once-{job}") for _ in range(2)]
    assert first["handle"] == second["handle"]


def test_the_next_job_of_a_queue(world: World) -> None:
    queue, job = world.new_name("queue"), world.new_name()
    assert world.ann.do("claim_next_job", queue=queue)["status"] == "empty"
    world.ann.do("enqueue_job", kind="review", queue=queue, job_id=job, payload={"pr": 7})
    claimed = world.ann.do("claim_next_job", queue=queue, kinds=["review"])
    assert (claimed["job_id"], claimed["payload"]) == (job, {"pr": 7})
    assert world.ann.do("release_job", handle=claimed["handle"], outcome="done")["status"] == "done"


def test_an_operator_can_ask_the_agent_to_stop(world: World) -> None:
    job = world.new_name()
    handle = world.ann.do("claim_job", job_id=job)["handle"]
    world.servers[0].post(f"/jobs/{job}/stop", {"reason": "the branch is gone"})
    for tool, more in (("report_progress", {}), ("checkpoint", {"data": 1})):
        (notice,) = world.ann.call(tool, handle=handle, **more).more
        assert notice.startswith("stop_requested: ")
        assert "the branch is gone" in notice


# Scopes and prefixes


def test_each_token_is_shown_the_tools_that_it_may_use(world: World) -> None:
    assert world.ann.tools == NAMES
    assert world.agent("operator", "admin").tools == [*NAMES, *OPERATOR_NAMES]
    assert world.agent("reader", "read").tools == READING
    assert world.agent("claimer", "claim").tools == [name for name in NAMES if name not in READING]


@pytest.mark.parametrize("scopes", [("read", "claim"), ("admin",)])
def test_the_list_is_short(world: World, scopes: tuple[str, ...]) -> None:
    token = world.servers[0].new_token("lister", *scopes)
    listed = world.servers[0].post("/mcp", message("tools/list"), token=token)
    assert len(listed.body) <= LIST_CHARACTERS_MAX


def test_tools_outside_the_scopes_of_a_token_cannot_be_called(world: World) -> None:
    job = world.new_name()
    token = world.servers[0].new_token("reader", "read")
    for tool in ("claim_job", "cancel_job"):
        response = world.servers[0].post("/mcp", calling(tool, job_id=job), token=token)
        assert response.json["error"]["code"] == -32602
    assert world.job(job)["status"] == "free"


def test_a_token_with_a_prefix_is_limited_to_its_names(world: World) -> None:
    prefix, queue = f"{world.new_name('team')}-", world.new_name("queue")
    eve, other = world.agent("eve", prefix=prefix), world.new_name()
    assert eve.refused("claim_job", job_id=other)["code"] == "not_allowed"
    assert eve.refused("get_job", job_id=other)["code"] == "not_allowed"
    assert eve.refused("enqueue_job", kind="k", job_id=other)["code"] == "not_allowed"
    assert eve.refused("list_claimed_jobs", prefix="job-")["code"] == "not_allowed"
    world.ann.do("claim_job", job_id=other)
    world.ann.do("enqueue_job", kind="k", queue=queue, job_id=world.new_name())
    assert eve.do("claim_next_job", queue=queue)["status"] == "empty"
    eve.do("enqueue_job", kind="k", queue=queue, job_id=f"{prefix}one")
    assert eve.do("claim_next_job", queue=queue)["job_id"] == f"{prefix}one"
    assert [claim["job_id"] for claim in eve.do("list_claimed_jobs")["claimed"]] == [f"{prefix}one"]
    assert {event["job_id"] for event in eve.do("read_events")["events"]} == {f"{prefix}one"}
    assert eve.do("enqueue_job", kind="k", queue=queue)["job_id"].startswith(f"{prefix}job-")
    world.ann.do("claim_job", job_id=f"{prefix[:-1]}+one")
    assert eve.do("get_job_owner", job_id=f"{prefix}onne")["similar"] == [f"{prefix}one"]
    assert f"{prefix[:-1]}+one" in world.ann.do("get_job_owner", job_id=f"{prefix}onne")["similar"]


def test_a_token_of_the_same_name_with_another_prefix_is_somebody_else(world: World) -> None:
    prefix = f"{world.new_name('team')}-"
    both = world.agent("fay"), world.agent("fay", prefix=prefix)
    handle = both[0].do("claim_job", job_id=f"{prefix}one")["handle"]
    assert both[1].refused("report_progress", handle=handle)["code"] == "invalid_input"


# Sessions


def test_a_session_keeps_its_claims_alive_and_is_handed_over_with_them(world: World) -> None:
    session, job = world.new_name("session"), world.new_name()
    opened = world.ann.do("open_session", session_id=session, owner="day")
    assert opened["ttl"] == 600
    claimed = world.ann.do("claim_job", job_id=job, session_id=session)
    renewed = world.ann.do("report_progress", handle=claimed["handle"])
    assert moment(renewed["expires_at"]) > moment(claimed["expires_at"])  # which is when the session expires
    world.ann.do("save_session", handle=opened["handle"], context={"step": 3}, phase="executing")
    assert world.bob.refused("hand_over_session", handle=opened["handle"], to_agent="bob")["code"] == "invalid_input"
    assert world.ann.do("hand_over_session", handle=opened["handle"], to_agent="night")["jobs"] == [job]
    for tool, handle in (("report_progress", claimed["handle"]), ("close_session", opened["handle"])):
        assert world.ann.refused(tool, handle=handle)["code"] == "lease_lost"
    taken = world.ann.do("open_session", session_id=session, owner="night")
    assert (taken["context"], [one["job_id"] for one in taken["in_flight"]]) == ({"step": 3}, [job])
    assert world.ann.do("report_progress", handle=taken["handles"][job], note="going on")["job_id"] == job
    for _ in range(2):  # as everywhere, closing can be repeated
        assert world.ann.do("close_session", handle=taken["handle"]) == {"session_id": session}
    late = world.ann.refused("save_session", handle=taken["handle"], context={})
    assert late["code"] == "lease_lost"
    assert "is lost: the session closed at" in late["error"]
    assert world.job(job)["status"] == "free"


def test_a_session_has_one_task_at_a_time(world: World) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    first, second = [world.ann.do("enqueue_job", kind="review", queue=queue)["job_id"] for _ in range(2)]
    opened = world.ann.do("open_session", session_id=session, owner="day")
    in_session = {"handle": opened["handle"], "queue": queue}
    assert world.bob.refused("claim_task", **in_session)["code"] == "invalid_input"
    claimed = world.ann.do("claim_task", **in_session, request_id="r")
    assert (claimed["job_id"], claimed["session_id"], claimed["owner"]) == (first, session, "day")
    assert world.ann.do("claim_task", **in_session, request_id="r")["handle"] == claimed["handle"]
    current = world.ann.do("claim_task", **in_session, wait=60)
    assert (current["status"], current["job_id"], current["handle"]) == ("held", first, claimed["handle"])
    assert moment(current["expires_at"]) > moment(opened["expires_at"])
    assert "release_task" in current["next"]
    world.ann.do("report_progress", handle=claimed["handle"], note="reading")
    world.ann.do("checkpoint", handle=claimed["handle"], data={"step": 3})
    ending = {"handle": claimed["handle"], "result": {"pr": 77}}
    assert world.ann.do("release_task", **ending) == world.ann.do("release_task", **ending)
    assert world.job(first)["result"] == {"pr": 77}

    assert world.ann.do("claim_task", **in_session)["job_id"] == second
    assert world.ann.do("hand_over_session", handle=opened["handle"], to_agent="night")["jobs"] == [second]
    assert world.ann.refused("claim_task", **in_session)["code"] == "lease_lost"
    taken = world.ann.do("open_session", session_id=session, owner="night")
    in_session["handle"] = taken["handle"]
    current = world.ann.do("claim_task", **in_session)
    assert (current["job_id"], current["owner"]) == (second, "night")
    assert current["handle"] == taken["handles"][second]
    failed = world.ann.do("release_task", handle=current["handle"], outcome="failed", error="the tests fail")
    assert (failed["status"], world.job(second)["error"]) == ("queued", "the tests fail")
    empty = world.ann.do("claim_task", **in_session)
    assert (empty["status"], empty["all_done"]) == ("empty", False)
    world.ann.do("close_session", handle=taken["handle"])
    assert world.ann.refused("claim_task", **in_session)["code"] == "lease_lost"


def test_a_lost_session_resumes_its_task(world: World) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    task = world.ann.do("enqueue_job", kind="review", queue=queue)["job_id"]
    lost = world.ann.do("open_session", session_id=session, ttl=1, owner="day")
    claimed = world.ann.do("claim_task", handle=lost["handle"], queue=queue)
    world.ann.do("checkpoint", handle=claimed["handle"], data={"step": 3})
    until(lambda: world.job(task)["status"] == "queued")
    taken = world.ann.do("open_session", session_id=session, owner="night")
    assert [(one["job_id"], one["checkpoint"]) for one in taken["in_flight"]] == [(task, {"step": 3})]
    again = world.ann.do("claim_task", handle=taken["handle"], queue=queue, wait=60)
    assert (again["job_id"], again["checkpoint"], again["attempt"]) == (task, {"step": 3}, 2)
    assert world.ann.refused("release_task", handle=claimed["handle"])["code"] == "lease_lost"
    world.ann.do("release_task", handle=again["handle"])
    world.ann.do("close_session", handle=taken["handle"])


def test_a_session_that_was_opened_again_is_lost_for_its_first_owner(world: World) -> None:
    session = world.new_name("session")
    first = world.ann.do("open_session", session_id=session)
    assert world.ann.refused("open_session", session_id=session)["code"] == "held"
    world.ann.do("close_session", handle=first["handle"])
    second = world.ann.do("open_session", session_id=session)
    assert world.ann.refused("save_session", handle=first["handle"], context={})["code"] == "lease_lost"
    world.ann.do("save_session", handle=second["handle"], context={})


# The page


def test_the_section_of_the_page(world: World) -> None:
    sets_up, types, prints, console = blocks_of(ROOT / "docs" / "how-to" / "agents.md", under="MCP")[-4:]
    settings = json.loads(sets_up.text)["mcpServers"]["octostore"]
    assert (settings["type"], urlsplit(settings["url"]).path) == ("http", "/mcp")
    server = world.servers[0]
    elsewhere = {"http://127.0.0.1:3000": server.url, "~/.local/share/octostore/admin.token": server.token_file}
    ran = run(["bash", "-euc", replaced(types.text, elsewhere)], stdout=PIPE, text=True)
    check_printed(prints.text, f"{ran.stdout}\n")
    agents, handle = {"agent-1": world.ann, "agent-2": world.bob}, ""
    for name, tool, arguments, printed in re.findall(r"^(\S+)> (\w+) (.*)\n(.*\n)", console.text, re.MULTILINE):
        reply = agents[name].call(tool, **json.loads(arguments.replace("HANDLE", handle)))
        check_printed(printed, f"{reply.text}\n")
        handle = reply.document.get("handle", handle)


# Waiting


def waiting(server: ServerProcess) -> int:
    lines = server.get("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("octostore_waiting_claims ")).split()[1]))


def test_a_release_on_one_server_wakes_a_claim_that_waits_on_the_other(world: World) -> None:
    job = world.new_name()
    token = world.servers[0].new_token("waiter")
    handle = world.ann.do("claim_job", job_id=job)["handle"]
    with world.servers[1].connect() as connection:
        connection.request("POST", "/mcp", calling("claim_job", job_id=job, wait=60), token=token)
        until(lambda: waiting(world.servers[1]) == 1)
        world.ann.do("release_job", handle=handle)
        reply = json.loads(connection.response().json["result"]["content"][0]["text"])
    assert (reply["status"], reply["owner"]) == ("claimed", "waiter")


def test_a_client_that_disconnects_while_waiting_gets_nothing(world: World) -> None:
    job, server = world.new_name(), world.servers[0]
    token = server.new_token("waiter")
    handle = world.ann.do("claim_job", job_id=job)["handle"]
    with server.connect() as connection:
        connection.request("POST", "/mcp", calling("claim_job", job_id=job, wait=60), token=token)
        until(lambda: waiting(server) == 1)
    until(lambda: waiting(server) == 0)
    world.ann.do("release_job", handle=handle)
    # A claim that was under way when the client left may still succeed. It is then undone, long before it would expire.
    assert world.bob.do("claim_job", job_id=job, wait=30)["status"] == "claimed"
    assert world.bob.do("claim_job", job_id=job)["owner"] == "bob"


def test_a_token_that_is_revoked_while_its_claim_waits_gets_nothing(world: World) -> None:
    job, server = world.new_name(), world.servers[0]
    made = server.post("/tokens", {"name": "short-lived", "scopes": ["read", "claim"]}).json
    handle = world.ann.do("claim_job", job_id=job)["handle"]
    with server.connect() as connection:
        connection.request("POST", "/mcp", calling("claim_job", job_id=job, wait=60), token=made["token"])
        until(lambda: waiting(server) == 1)
        server.request("DELETE", f"/tokens/{made['token_id']}")
        result = connection.response().json["result"]
    assert result["isError"]
    world.ann.do("release_job", handle=handle)
    assert world.job(job)["status"] == "free"


def test_a_wait_has_the_limit_of_all_http_calls(world: World) -> None:
    for wait in (-1, 61):
        refusal = world.ann.refused("claim_job", job_id=world.new_name(), wait=wait)
        assert (refusal["code"], refusal["field"]) == ("invalid_input", "wait")
        assert "60 seconds" in refusal["error"]
