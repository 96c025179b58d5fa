"""Own a job: claim, heartbeat, release."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.processes import until


def test_a_job_from_its_claim_to_its_end(cli: Cli) -> None:
    claim = cli.run("claim", cli.job, "--owner", "ann", "--ttl", "2m", "--metadata", '{"branch": "fix"}', "--json")
    assert (claim.code, claim.err) == (0, "")
    assert claim.json["status"] == "claimed"
    assert (claim.json["owner"], claim.json["metadata"], claim.json["ttl"]) == ("ann", {"branch": "fix"}, 120)
    lease = claim.json["lease_id"]

    held = cli.run("claim", cli.job, "--owner", "bob")
    assert (held.code, held.err) == (11, "")
    assert f"held {cli.job}: ann has it (claimed " in held.out

    heartbeat = cli.run("heartbeat", cli.job, "--progress", "testing", "--percent", "40", OCTOSTORE_LEASE_ID=lease)
    assert (heartbeat.code, heartbeat.err) == (0, "")
    assert f"{cli.job} is yours until " in heartbeat.out

    released = cli.run("release", cli.job, "--lease-id", lease, "--outcome", "done", "--result", '{"pr": 77}')
    assert (released.code, released.out) == (0, f"{cli.job} is done\n")

    done = cli.run("claim", cli.job)
    assert done.code == 10
    assert '{"pr": 77}' in done.out
    again = cli.run("claim", cli.job, "--again", "--json")
    assert (again.code, again.json["status"]) == (0, "claimed")
    assert again.json["previous"][0]["owner"] == "ann"


def test_what_a_claim_shows_to_people(cli: Cli) -> None:
    first = cli.lease()
    cli.store.checkpoint_job(cli.job, first, {"step": 3})
    cli.store.release_job(cli.job, first, "failed", error="line 1\nValueError: no", note="look at the disk")
    claim = cli.call("claim", cli.job, "--owner", "bob")
    assert claim.code == 0
    assert f"claimed {cli.job} until " in claim.out
    for text in ('checkpoint {"step": 3}', "note       look at the disk", "attempt    2, after", "ann failed after "):
        assert text in claim.out
    assert "line 1 … ValueError: no" in claim.out


def test_the_lease_alone(cli: Cli) -> None:
    claim = cli.run("claim", cli.job, "--owner", "ann", "--lease")
    assert (claim.code, claim.err) == (0, "")
    assert cli.store.heartbeat_job(cli.job, claim.out.strip()).job_id == cli.job
    held = cli.run("claim", cli.job, "--owner", "bob", "--lease")
    assert (held.code, held.out) == (11, ""), "stdout is for the lease alone"
    assert "ann has it" in held.err
    assert cli.json("claim", cli.job, "--lease", code=11)["status"] == "held"
    other = cli.new_name("other")
    assert cli.json("claim", other, "--lease")["status"] == "claimed", "--json is JSON, whatever else is asked for"


def test_the_lease_is_from_the_environment_or_an_option(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = cli.lease()
    assert cli.call("heartbeat", cli.job, "--lease-id", lease).code == 0
    monkeypatch.setenv("OCTOSTORE_LEASE_ID", lease)
    assert cli.call("heartbeat", cli.job).code == 0
    assert cli.call("heartbeat", cli.job, "--lease-id", "another").code == 20, "the option takes precedence"
    empty = cli.call("heartbeat", cli.job, "--lease-id", "")
    assert (empty.code, "lease_id is empty" in empty.err) == (64, True), "as from an empty variable"
    assert cli.call("release", cli.job).code == 0


@pytest.mark.parametrize("command", ["heartbeat", "release"])
def test_without_a_lease(cli: Cli, command: str) -> None:
    cli.lease()
    done = cli.call(command, cli.job)
    assert (done.code, done.out) == (64, "")
    assert f"you hold no claim on {cli.job} here. Claim it with `octostore claim {cli.job} --keep`" in done.err
    assert "set OCTOSTORE_LEASE_ID to the lease id that `octostore claim` printed" in done.err
    assert "you hold no claim here. Claim a job with `octostore claim JOB --keep`" in cli.call(command).err
    assert cli.json(command, cli.job, code=64)["field"] == "lease_id"
    assert cli.store.get_job(cli.job).status == "claimed"


def test_the_lease_is_nowhere_on_disk(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    lease = cli.run("claim", cli.job, "--lease").out.strip()
    assert cli.run("heartbeat", cli.job, OCTOSTORE_LEASE_ID=lease).code == 0
    assert cli.run("heartbeat", cli.job).code == 64, "it is not remembered otherwise either"
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith("octostore.db")]
    assert [path for path in files if lease.encode() in path.read_bytes()] == []


def test_a_lost_lease_cannot_be_used(cli: Cli) -> None:
    lease = cli.lease()
    cli.store.force_release(cli.job, reason="its runner is gone")
    cli.lease(owner="bob")
    heartbeat = cli.run("heartbeat", cli.job, OCTOSTORE_LEASE_ID=lease)
    assert (heartbeat.code, heartbeat.out) == (20, "")
    assert "is lost" in heartbeat.err
    assert lease not in heartbeat.err
    late = cli.run("release", cli.job, "--outcome", "done", "--json", OCTOSTORE_LEASE_ID=lease)
    assert late.code == 20
    assert late.json["code"] == "lease_lost"
    assert late.json["holder"]["owner"] == "bob"
    assert late.json["ended"]["reason"] == "its runner is gone"
    assert lease not in late.out + late.err
    assert cli.store.get_job(cli.job).owner == "bob"


def test_a_claim_that_waits(cli: Cli) -> None:
    lease = cli.lease()
    with cli.start("claim", cli.job, "--owner", "bob", "--wait", "30", "--json") as waiting:
        assert cli.call("claim", cli.job, "--wait", "0.1").code == 11
        cli.store.release_job(cli.job, lease)
        done = waiting.finish()
    assert (done.code, done.json["owner"]) == (0, "bob")


def test_a_repeated_claim(cli: Cli) -> None:
    first = cli.json("claim", cli.job, "--request-id", "r1")
    again = cli.json("claim", cli.job, "--request-id", "r1")
    assert (again["replayed"], again["lease_id"]) == (True, first["lease_id"])


def test_a_claim_of_a_session(cli: Cli) -> None:
    name = cli.new_name("session")
    with cli.store.open_session(agent="ann", session_id=name):
        claim = cli.json("claim", cli.job, "--session", name)
        assert claim["session_id"] == name
        assert f"session   {name}" in cli.call("owner", cli.job).out
    assert cli.call("claim", cli.new_name("other"), "--session", "nobodys").code == 64


def test_a_lock_delay_keeps_a_released_job_from_being_claimed(cli: Cli) -> None:
    claim = cli.json("claim", cli.job, "--lock-delay", "30")
    assert cli.call("release", cli.job, "--lease-id", claim["lease_id"]).code == 0
    delayed = cli.call("claim", cli.job)
    assert delayed.code == 11
    assert f"delayed {cli.job}: cannot be claimed before " in delayed.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--outcome", "released", "--note", "half way"], "is free\n"),
        (["--outcome", "failed", "--error", "no disk"], "is free (failed)"),
        (["--outcome", "deferred", "--retry-after", "870"], "is free (deferred), available in 14m "),
    ],
)
def test_outcomes(cli: Cli, options: list[str], says: str) -> None:
    lease = cli.lease()
    first = cli.call("release", cli.job, "--lease-id", lease, *options)
    assert first.code == 0
    assert says in first.out
    assert cli.json("release", cli.job, "--lease-id", lease, *options)["outcome"] == options[1], (
        "repeating is not an error"
    )


def test_the_owner_is_from_the_environment_or_an_option(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOSTORE_OWNER", "nightly")
    assert cli.json("claim", cli.job)["owner"] == "nightly"
    assert cli.json("claim", cli.new_name("other"), "--owner", "ann")["owner"] == "ann"


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_json_from_a_file_or_stdin(cli: Cli, way: str, tmp_path: Path) -> None:
    document = json.dumps({"branch": "fix", "größe": 3})
    if way == "file":
        (tmp_path / "metadata.json").write_text(document, encoding="utf-8")
        claim = cli.run("claim", cli.job, "--metadata", f"@{tmp_path}/metadata.json", "--json")
    else:
        claim = cli.run("claim", cli.job, "--metadata", "-", "--json", stdin=document)
    assert claim.json["metadata"] == {"branch": "fix", "größe": 3}


def test_options_before_the_command(cli: Cli) -> None:
    assert cli.call("--json", "owner", cli.job).json["status"] == "free"


def test_an_interrupted_wait(cli: Cli) -> None:
    cli.lease()
    with cli.start("claim", cli.job, "--wait", "60") as waiting:
        # It imports, then waits; whenever it is interrupted, it ends quietly.
        until(lambda: _sleeps(waiting.process.pid))
        done = waiting.interrupt()
    assert done == (130, "", "")


def _sleeps(pid: int) -> bool:
    """Whether it has opened its store or server, and is idle."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        opened = {str(path.resolve()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return False
    return state == "S" and any("octostore.db" in path or "socket:" in path for path in opened)
