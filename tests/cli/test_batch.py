"""Many commands in one call, one per line."""

import json
from typing import Any

from tests.cli.conftest import Cli


def lines(*documents: Any) -> str:
    return "".join(f"{document if isinstance(document, str) else json.dumps(document)}\n" for document in documents)


def claim(job_id: str, **more: Any) -> dict[str, Any]:
    return {"command": "claim_job", "job_id": job_id, "owner": "ann", **more}


def test_each_line_is_a_command(cli: Cli) -> None:
    other = cli.new_name("job")
    done = cli.run(
        "batch", "--json", stdin=lines(claim(cli.job), "", {"command": "enqueue", "kind": "k", "job_id": other})
    )
    assert (done.code, done.err) == (0, "")
    first, second = done.json["answers"]
    assert (first["status"], first["body"]["status"], first["body"]["owner"]) == (200, "claimed", "ann")
    assert (second["status"], second["body"]["job_id"]) == (201, other)


def test_for_people(cli: Cli) -> None:
    cli.store.claim_job(cli.job, owner="bob")
    other = cli.new_name("job")
    done = cli.run("batch", "--no-atomic", stdin=lines(claim(other), claim(cli.job), {"command": "open_session"}))
    assert done.code == 11
    header, *rows = [line.split() for line in done.out.splitlines()]
    assert header == ["COMMAND", "TARGET", "RESULT"]
    assert rows == [["claim_job", other, "claimed"], ["claim_job", cli.job, "held"], ["open_session", "ok"]]


def test_the_exit_code_is_that_of_the_first_failure(cli: Cli) -> None:
    stale = {"command": "heartbeat_job", "job_id": cli.job, "lease_id": "another"}
    cli.store.claim_job(cli.job, owner="bob")
    done = cli.run("batch", "--json", stdin=lines(claim(cli.new_name("job")), stale, claim(cli.job)))
    assert done.code == 20
    assert [one["status"] for one in done.json["answers"]] == [200, 409, 200]
    assert done.json["answers"][1]["body"]["code"] == "lease_lost"


def test_a_session_that_is_lost_is_gone(cli: Cli) -> None:
    session, lease = cli.new_name("session"), {"lease_id": "another"}
    late: list[dict[str, Any]] = [
        {"command": "keepalive"},
        {"command": "save_context", "context": 1},
        {"command": "hand_over", "to_agent": "eve"},
        {"command": "close_session"},
    ]
    opened = {"command": "open_session", "session_id": session, "agent": "ann"}
    done = cli.run("batch", "--json", stdin=lines(opened, *({**one, **lease, "session_id": session} for one in late)))
    assert [one["status"] for one in done.json["answers"]] == [201, 410, 410, 410, 410], "as over HTTP"


def test_a_task_in_somebody_elses_session_is_held(cli: Cli) -> None:
    session = cli.new_name("session")
    opened = cli.run("batch", "--json", stdin=lines({"command": "open_session", "session_id": session, "agent": "ann"}))
    assert opened.json["answers"][0]["body"]["keepalive_interval_secs"] == 60, "as over HTTP"
    task = {"command": "claim_task", "session_id": session, "agent": "bob", "queues": ["default"]}
    done = cli.run("batch", "--json", stdin=lines(task))
    assert (done.code, done.err) == (11, "")
    (held,) = done.json["answers"]
    assert (held["status"], held["body"]["status"], held["body"]["owner"]) == (200, "held", "ann")


def test_a_line_that_is_not_a_command_is_refused(cli: Cli) -> None:
    for wrong, problem in [
        ("{", "line 2 is not valid JSON"),
        ("[1]", "line 2 is not a command"),
        ({"job_id": "x"}, "line 2 is not a command"),
        ({"command": "fly"}, "commands[1] is not valid: command must be one of"),
        (claim("no name"), "commands[1] is not valid: job_id"),
    ]:
        done = cli.run("batch", stdin=lines(claim(cli.job), wrong))
        assert done.code == 64, done
        assert problem in done.err
    assert cli.run("batch", stdin="").code == 64
    assert cli.store.get_job(cli.job).status == "free"


def test_no_commands_at_all(cli: Cli) -> None:
    done = cli.run("batch", stdin="\n")
    assert (done.code, done.out) == (64, "")
    assert "stdin is empty: write one command per line" in done.err
