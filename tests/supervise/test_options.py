"""The options of `octostore run`."""

import json
from pathlib import Path

import pytest

import octostore as library
from tests.support.processes import until
from tests.support.running import FOREVER, UNTIL_GO, UNTIL_STOPPED, Octostore, types_of
from tests.support.survivors import Survivor


def hold(store: library.OctoStore, job_id: str = "job") -> str:
    reply = store.claim_job(job_id, "somebody", ttl=600)
    assert reply.lease_id is not None
    return reply.lease_id


def held_for(store: library.OctoStore, job_id: str) -> tuple[str, float]:
    """How the job's only claim ended, and after how many seconds."""
    claimed, ended = store.events(job_id=job_id)
    return ended.type, (ended.at - claimed.at).total_seconds()


# Another owner has the job


def test_wait_gets_the_job_after_the_other_run_ends(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    first = octostore.start("run", "job", "--owner", "first", "--", "bash", "-c", UNTIL_GO)
    until(lambda: store.get_job("job").status == "claimed")
    second = octostore.start("run", "job", "--owner", "second", "--wait", FOREVER, "--", "echo", "mine")
    too_late = octostore.run("run", "job", "--wait", "0.2", "--", "touch", "ran")
    assert too_late.code == 11
    until(lambda: "waiting up to 10m" in second.err)
    assert not (tmp_path / "ran").exists()
    assert second.process.poll() is None
    (tmp_path / "go").touch()
    assert first.wait().code == 0
    assert second.wait()[:2] == (0, "mine\n")
    events = [(event.type, event.data["owner"]) for event in store.events(job_id="job")]
    assert events == [("claimed", "first"), ("released", "first"), ("claimed", "second"), ("released", "second")]


def test_what_run_does_if_another_owner_has_the_job(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    hold(store)
    cases = {
        "fail": (["--on-held", "fail"], 11),
        "usual": ([], 11),
        "no-wait": (["--wait", FOREVER, "--no-wait"], 11),
        "quiet": (["--quiet"], 11),
        "skip": (["--on-held", "skip"], 0),
        "fail with": (["--held-exit", "42"], 42),
        "skip with": (["--on-held", "skip", "--held-exit", "43"], 43),
        "json": (["--json"], 11),
    }
    runs = {case: octostore.start("run", "job", *options, "--", "touch", "ran") for case, (options, _) in cases.items()}
    done = {case: run.wait() for case, run in runs.items()}
    assert {case: one.code for case, one in done.items()} == {case: code for case, (_, code) in cases.items()}
    naming_the_owner = {case for case, one in done.items() if "somebody" in one.err}
    assert naming_the_owner == {"fail", "usual", "no-wait", "fail with", "json"}
    assert {case for case, one in done.items() if one.out} == {"json"}
    refusal = json.loads(done["json"].out)
    assert (refusal["code"], refusal["owner"]) == ("held", "somebody")
    assert not (tmp_path / "ran").exists()
    assert types_of(store) == ["claimed"]


# The claim


def test_ttl_owner_and_metadata_are_passed_to_the_claim(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    options = ["--ttl", "1m30s", "--owner", "agent-3", "--metadata", '{"ticket": [7]}']
    run = octostore.start("run", "job", *options, "--", "bash", "-c", UNTIL_GO)
    until(lambda: store.get_job("job").status == "claimed")
    owner = store.get_job_owner("job")
    assert owner is not None
    assert (owner.owner, owner.metadata) == ("agent-3", {"ticket": [7]})
    assert (owner.expires_at - owner.heartbeat_at).total_seconds() == 90
    (tmp_path / "go").touch()
    assert run.wait().code == 0


def test_a_job_done_with_once_never_runs_again(octostore: Octostore, store: library.OctoStore) -> None:
    assert octostore.run("run", "job", "--once", "--", "false").code == 1
    assert store.get_job("job").status == "free"
    first = octostore.run("run", "job", "--once", "--", "echo", "did it")
    assert first[:2] == (0, "did it\n")
    assert store.get_job("job").status == "done"
    again = [
        octostore.start("run", "job", *options, "--", "echo", "did it")
        for options in (["--once"], [], ["--wait", FOREVER], ["--done-exit", "0"])
    ]
    assert [run.wait()[:2] for run in again] == [(10, ""), (10, ""), (10, ""), (0, "")]
    assert types_of(store) == ["claimed", "failed", "claimed", "done"]


def test_min_hold_keeps_a_job_that_was_done_quickly(octostore: Octostore, store: library.OctoStore) -> None:
    short = octostore.start("run", "short", "--ttl", "3", "--min-hold", "4", "--", "true")
    long = octostore.start("run", "long", "--min-hold", FOREVER, "--", "bash", "-c", "echo over")
    failing = octostore.start("run", "failing", "--min-hold", "0.7", "--", "bash", "-c", "exit 3")
    until(lambda: long.out == "over\n")
    assert store.claim_job("long", "rival", wait=0.3).status == "held"
    long.process.terminate()  # a signal ends the wait
    assert [run.wait().code for run in (short, long, failing)] == [0, 0, 3]
    ended = {job_id: held_for(store, job_id) for job_id in ("short", "long", "failing")}
    assert {job_id: how for job_id, (how, _) in ended.items()} == {
        "short": "released",
        "long": "released",
        "failing": "failed",
    }
    assert ended["short"][1] >= 2  # longer than its lease
    assert ended["failing"][1] >= 0.7


# Stopping the command


def test_a_command_that_max_run_stops_has_failed(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    names = ("term", "interrupt", "daemon")
    survivors = {name: Survivor(tmp_path / name, "daemon" if name == "daemon" else "noting") for name in names}
    soon, later = ["--max-run", "0.3"], ["--max-run", "1.5", "--stop-grace", "0.3"]
    polite = f'trap "exit 0" TERM; {UNTIL_STOPPED}'
    cases = {
        "plain": (143, soon, ["sleep", FOREVER]),
        "quick": (0, ["--max-run", FOREVER], ["true"]),
        # A failure never looks like a success: `timeout` exits with this code too.
        "polite": (124, later, ["bash", "-c", polite]),
        "term": (137, later, survivors["term"].command),
        "interrupt": (137, [*later, "--stop-signal", "INT"], survivors["interrupt"].command),
        "daemon": (137, later, survivors["daemon"].command),
    }
    runs = {
        job_id: octostore.start("run", job_id, *options, "--", *command)
        for job_id, (_, options, command) in cases.items()
    }
    done = {job_id: run.wait() for job_id, run in runs.items()}
    assert {job_id: one.code for job_id, one in done.items()} == {job_id: case[0] for job_id, case in cases.items()}
    assert survivors["term"].signals == ["SIGTERM"]
    assert survivors["interrupt"].signals == ["SIGINT"]
    assert len(survivors["daemon"].pids) == 2
    assert not any(survivor.is_alive() for survivor in survivors.values())
    assert types_of(store, "quick") == ["claimed", "released"]
    for job_id in cases.keys() - {"quick"}:
        job = store.get_job(job_id)
        assert job.last_outcome == "failed"
        assert "(--max-run)" in (job.error or "")
        assert "(--max-run)" in done[job_id].err


def test_a_command_keeps_its_full_grace_while_the_lease_is_renewed(octostore: Octostore) -> None:
    # Longer than its TTL.
    script = f'trap "sleep 4; exit 7" TERM; {UNTIL_STOPPED}'
    options = ["--ttl", "3", "--max-run", "0.5", "--stop-grace", FOREVER]
    assert octostore.run("run", "job", *options, "--", "bash", "-c", script).code == 7


# Output


def test_quiet_adds_no_output(octostore: Octostore, tmp_path: Path) -> None:
    script = f"({UNTIL_GO}) & echo error >&2"
    loud = octostore.start("run", "loud", "--", "bash", "-c", script)
    quiet = octostore.start("run", "quiet", "--quiet", "--", "bash", "-c", script)
    until(lambda: "still run" in loud.err and quiet.err == "error\n")
    (tmp_path / "go").touch()
    assert quiet.wait() == (0, "", "error\n")
    assert loud.wait().code == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--max-run", "0.3"], "still running after 0.3s (--max-run)"),
        (["--max-silence", "1", "--on-silence", "stop"], "no progress for 1s (--max-silence)"),
    ],
)
def test_quiet_still_says_why_a_command_was_stopped(octostore: Octostore, options: list[str], problem: str) -> None:
    done = octostore.run("run", "job", "--quiet", *options, "--", "sleep", FOREVER)
    assert (done.code, done.out) == (143, "")
    assert f"octostore: stopping job: {problem}\n" in done.err


def test_quiet_does_not_report_a_stop_that_was_asked_for(octostore: Octostore, store: library.OctoStore) -> None:
    run = octostore.start("run", "job", "--quiet", "--", "sleep", FOREVER)
    until(lambda: store.get_job_owner("job") is not None)
    store.request_stop("job", reason="maintenance")
    assert run.wait() == (143, "", "")


def test_json_reports_the_result(octostore: Octostore, store: library.OctoStore) -> None:
    store.release_job("job", hold(store))
    done = octostore.run("run", "job", "--json", "--", "bash", "-c", "echo output; exit 3")
    output, ran = done.out.splitlines()
    claimed, _failed = list(store.events(job_id="job"))[2:]
    assert (done.code, output) == (3, "output")
    assert json.loads(ran) == {
        "job_id": "job",
        "exit_code": 3,
        "outcome": "failed",
        "is_lost": False,
        "why": None,
        "fencing_token": claimed.seq,
        "attempt": claimed.data["attempt"],
    }


def test_bad_options_claim_and_run_nothing(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    mistakes = [
        ["job"],
        ["job", "--"],
        ["job", "--ttl", "0.5", "--", "touch", "ran"],
        ["job", "--held-exit", "256", "--", "touch", "ran"],
        ["job", "--max-run", "0", "--", "touch", "ran"],
        ["job", "--stop-signal", "TREM", "--", "touch", "ran"],
        ["job", "--metadata", "{", "--", "touch", "ran"],
        ["", "--", "touch", "ran"],
    ]
    runs = [octostore.start("run", *arguments) for arguments in mistakes]
    assert [run.wait().code for run in runs] == [64] * len(mistakes)
    assert not (tmp_path / "ran").exists()
    assert list(store.events()) == []
