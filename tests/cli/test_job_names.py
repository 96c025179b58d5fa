"""Names as people type them: mistyped, truncated, and with characters that mean something to a shell."""

import argparse
import shlex
from uuid import uuid4

import pytest

import octostore
from octostore.cli.job_names import JOB_ARGUMENTS
from octostore.cli.subcommands import SUBCOMMANDS
from octostore.cli.words import shell_quote
from octostore.stores.ids import is_generated, is_truncated, new_job_id
from tests.cli.conftest import Cli
from tests.support.server import ServerProcess

UNKNOWN = "nobody has ever claimed or enqueued"


@pytest.fixture
def names(cli: Cli) -> tuple[str, str]:
    """The name of a claimed job, and the same name mistyped; too long to be similar to those of other tests."""
    name = uuid4().hex
    cli.lease(f"{name}-deploy")
    return f"{name}-deploy", f"{name}-delpoy"


def test_a_name_that_begins_with_a_hyphen_goes_after_two(cli: Cli) -> None:
    name = f"-{cli.job}"
    lease = cli.call("claim", "--owner", "ann", "--json", "--", name).json["lease_id"]
    assert cli.call("owner", "--json", "--", name).json["owner"] == "ann"
    assert [job["job_id"] for job in cli.call("list", "--json", "--", name).json["jobs"]] == [name]
    assert cli.run("release", "--lease-id", lease, "--", name).code == 0


# Names that nobody has used


def test_a_mistyped_name_is_not_a_free_job(cli: Cli, names: tuple[str, str]) -> None:
    name, mistyped = names
    message = f"{UNKNOWN} {mistyped}; did you mean {name}?\n"
    assert cli.run("owner", mistyped) == (0, message, "")
    as_json = cli.json("owner", mistyped)
    assert (as_json["status"], as_json["is_known"], as_json["similar"]) == ("free", False, [name])
    assert cli.json("owner", name)["is_known"] is True
    assert cli.call("events", "--job", mistyped) == (0, "", f"octostore: {message}")
    assert cli.call("dead", mistyped).out == message


@pytest.mark.parametrize("command", ["requeue", "cancel", "discard", "stop", "force-release"])
def test_operators_see_the_name_that_they_may_have_meant(cli: Cli, names: tuple[str, str], command: str) -> None:
    name, mistyped = names
    done = cli.call(command, mistyped)
    assert done.code == 64
    assert f"{UNKNOWN} '{mistyped}'" in done.err
    assert f"did you mean {name}?" in done.err
    failure = cli.json(command, mistyped, code=64)
    assert (failure["code"], failure["job_id"], failure["similar"]) == ("not_found", mistyped, [name])


@pytest.mark.parametrize("command", ["heartbeat", "release"])
def test_owners_see_the_name_that_they_may_have_meant(cli: Cli, names: tuple[str, str], command: str) -> None:
    name, mistyped = names
    done = cli.call(command, mistyped, "--lease-id", "a-lease")
    assert done.code == 20
    assert "nobody has ever claimed this job" in done.err
    assert f"did you mean {name}?" in done.err
    assert "a-lease" not in done.err


def test_a_lost_lease_of_a_known_job_suggests_nothing(cli: Cli) -> None:
    lease = cli.lease()
    cli.store.release_job(cli.job, lease, "done")
    done = cli.call("heartbeat", cli.job, "--lease-id", lease)
    assert done.code == 20
    assert "did you mean" not in done.err


def test_a_limited_token_never_sees_other_names(server: ServerProcess) -> None:
    prefix = f"{uuid4().hex}/"
    with octostore.connect(server.url, token=server.token) as store:
        store.claim_job(f"{prefix}mine/deploy", "ann")
        store.claim_job(f"{prefix}minf/deploy", "ann")
        store.claim_job(f"{prefix}mind/deploy", "ann")
    token = server.new_token("limited", "read", prefix=f"{prefix}mine/")
    with octostore.connect(server.url, token=token) as limited:
        assert limited.find_similar(f"{prefix}mine/delpoy").similar == [f"{prefix}mine/deploy"]
        assert limited.find_similar(f"{prefix}mine/d").similar == [f"{prefix}mine/deploy"]
        with pytest.raises(octostore.NotAllowed):
            limited.find_similar(f"{prefix}minf/delpoy")


# Truncated generated names


def test_what_a_generated_name_looks_like() -> None:
    name = new_job_id()
    assert is_generated(name)
    assert is_generated(f"team-a/{name}")
    assert [is_truncated(name[:size]) for size in (11, 12, len(name) - 1, len(name))] == [False, True, True, False]
    for other in (
        "job-1",
        "job-01",
        "job-20261116",
        "job-00000042",
        "job-deadbeef",
        f"cron{name[:12]}",
        f"{name}x",
        f"on {name[:12]}",
    ):
        assert not is_truncated(other)
        assert not is_generated(other)


def test_the_beginning_of_a_generated_name_is_enough(cli: Cli) -> None:
    name = cli.store.enqueue("build").job_id
    cut = name[:-4]
    assert name in cli.run("owner", cut).out
    assert cli.json("owner", cut)["job_id"] == name
    assert [event["job_id"] for event in cli.json("events", "--job", cut)["events"]] == [name]
    assert cli.json("cancel", cut)["job_id"] == name
    assert cli.json("requeue", cut)["job_id"] == name
    assert cli.json("enqueue", "build", "--job-id", cut) | {"created": False} == cli.json(
        "enqueue", "build", "--job-id", name
    )
    claim = cli.json("claim", cut, "--owner", "ann")
    assert claim["job_id"] == name
    assert cli.json("heartbeat", cut, "--lease-id", claim["lease_id"])["job_id"] == name
    assert cli.json("release", cut, "--lease-id", claim["lease_id"])["job_id"] == name
    ran = cli.run("run", cut, "--", "sh", "-c", 'printf %s "$OCTOSTORE_JOB"')
    assert (ran.code, ran.out) == (0, name)


def test_an_ambiguous_start_lists_what_matches(cli: Cli) -> None:
    first = new_job_id()
    names = sorted(f"{first[:-2]}{digits}" for digits in ("0a", "0b", "0c"))
    for name in names:
        cli.store.enqueue("build", job_id=name)
    done = cli.call("owner", first[:-2])
    assert (done.code, done.out) == (64, "")
    assert f"matches several jobs: {', '.join(names)}" in done.err
    assert cli.json("owner", f"{first[:-2]}0b"[:-1], code=64)["code"] == "invalid_input"


def test_a_long_list_of_matches_is_cut(cli: Cli) -> None:
    first = new_job_id()[:-4]
    cli.store.enqueue_many([{"kind": "build", "job_id": f"{first}{number:04x}"} for number in range(30)])
    done = cli.call("owner", first)
    assert done.err.count(first) == 11
    assert "and more" in done.err


def test_a_name_that_exists_as_it_was_typed_is_that_job(cli: Cli) -> None:
    name = new_job_id()
    cli.store.enqueue("build", job_id=name)
    cli.store.enqueue("build", job_id=name[:20])
    assert cli.json("owner", name[:20])["job_id"] == name[:20]
    assert cli.json("owner", name[:24])["job_id"] == name


def test_only_generated_names_are_expanded(cli: Cli) -> None:
    cut = new_job_id()[:20]
    cli.store.enqueue("build", job_id=f"{cut}-mine")
    assert cli.json("owner", cut)["is_known"] is False
    cli.store.enqueue("build", job_id=f"{cli.job}-long")
    assert cli.json("owner", f"{cli.job}-lon")["is_known"] is False


@pytest.mark.parametrize("command", [["claim"], ["run"], ["enqueue", "build", "--job-id"]])
def test_no_job_is_created_from_a_truncated_name(cli: Cli, command: list[str]) -> None:
    cli.lease()
    cut = new_job_id()[:20]
    rest = ["--", "true"] if command == ["run"] else []
    done = cli.call(*command, cut, *rest)
    assert done.code == 64
    assert "type the full name" in done.err
    assert not cli.store.get_job(cut).is_known


def test_every_truncated_name_is_expanded(cli: Cli) -> None:
    names = [cli.store.enqueue("build").job_id for _ in range(2)]
    done = cli.call("cancel", *(name[:-2] for name in names))
    assert done.code == 0
    assert [cli.store.get_job(name).status for name in names] == ["dead", "dead"]


def test_every_command_that_takes_a_job_says_so() -> None:
    """Arguments are expanded by name."""
    for command in SUBCOMMANDS:
        parser = argparse.ArgumentParser()
        command.module.configure(parser)
        for action in parser._actions:
            if action.metavar in {"JOB", "J"}:
                assert action.dest in JOB_ARGUMENTS, command.name


# For a shell


@pytest.mark.parametrize("name", ["acme/shop#12", "#12", "user@host", "a=b+c:d", "=a", "日本"])
def test_a_command_that_is_shown_can_be_typed(cli: Cli, name: str) -> None:
    assert shlex.split(shell_quote(name)) == [name]
    job = f"{name}-{cli.job}"
    cli.lease(job)
    *_, gentle, command = cli.call("owner", job).out.splitlines()
    assert shlex.split(gentle)[2] == job
    assert cli.call(*shlex.split(command)[1:]).code == 0
    cli.store.cancel(cli.store.enqueue("build", job_id=job).job_id)
    *_, hint = cli.call("claim", job).out.splitlines()
    assert shlex.split(hint.removeprefix("  next")) == ["octostore", "requeue", job]
