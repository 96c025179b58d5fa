"""What a command knows of its claim, what it can report, and what it must not know."""

import json
import socket
from datetime import datetime
from pathlib import Path

import octostore as library
from tests.support.processes import until
from tests.support.running import UNTIL_GO, Octostore, Running, Served, children_of, secrets_visible_of
from tests.support.soundness import reading_only
from tests.support.starting import SCRIPT

SECRET = "a-lease-of-somebody"


def lease_of(path: Path, job_id: str) -> str:
    with reading_only(path) as connection:
        ((lease_id,),) = connection.execute("SELECT lease_id FROM jobs WHERE job_id = ?", (job_id,)).fetchall()
    assert isinstance(lease_id, str)
    return lease_id


def environment_in(file: Path) -> dict[str, str]:
    return dict(variable.split("=", 1) for variable in file.read_text().split("\0") if variable)


def test_a_command_knows_its_claim(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    look = 'env -0 > attempt-$OCTOSTORE_ATTEMPT; test -e "$OCTOSTORE_CHECKPOINT_FILE"; echo $?; exit 3'
    for _ in range(2):
        assert octostore.run("run", "team/job", "--", "bash", "-c", look)[:2] == (3, "1\n")
    claims = [event for event in store.events() if event.type == "claimed"]
    assert [claim.data["attempt"] for claim in claims] == [1, 2]
    for claim in claims:
        environment = environment_in(tmp_path / f"attempt-{claim.data['attempt']}")
        assert environment["OCTOSTORE_JOB"] == "team/job"
        assert environment["OCTOSTORE_FENCING_TOKEN"] == str(claim.seq)
        assert environment["OCTOSTORE_ATTEMPT"] == str(claim.data["attempt"])
        assert environment["OCTOSTORE_URL"] == octostore.env["OCTOSTORE_URL"]
        # Its temporary folder is removed.
        assert not Path(environment["OCTOSTORE_CHECKPOINT_FILE"]).parent.exists()
        assert environment["OCTOSTORE_CHECKPOINT_FILE"].endswith("json")


def test_others_see_the_progress_of_a_command(octostore: Octostore, tmp_path: Path) -> None:
    script = f"octostore progress 'running tests' --percent 40 && touch said; {UNTIL_GO}"
    run = octostore.start("run", "job", "--", "bash", "-c", script)
    until((tmp_path / "said").exists)
    owner = json.loads(octostore.run("owner", "job", "--json").out)
    assert (owner["claim"]["progress"]["note"], owner["claim"]["progress"]["percent"]) == ("running tests", 40)
    (tmp_path / "go").touch()
    assert run.wait().code == 0


def test_the_next_attempt_gets_the_checkpoint(octostore: Octostore, store: library.OctoStore) -> None:
    script = """
        echo '{"step": 3, "name": "ü"}' | octostore checkpoint - || exit 1
        cat $OCTOSTORE_CHECKPOINT_FILE
        exit 3
    """
    first = octostore.run("run", "job", "--", "bash", "-c", script)
    second = octostore.run("run", "job", "--", "bash", "-c", "cat $OCTOSTORE_CHECKPOINT_FILE")
    assert (first.code, second.code) == (3, 0)
    assert json.loads(first.out) == json.loads(second.out) == {"step": 3, "name": "ü"}
    assert store.claim_job("job", "me").checkpoint == {"step": 3, "name": "ü"}


def test_a_command_knows_who_had_the_job_before(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    look = 'printf %s "$OCTOSTORE_PREVIOUS" > "previous-$OCTOSTORE_ATTEMPT"; echo no disk >&2; exit 3'
    first = ["run", "job", "--owner", "ann", "--", "bash", "-c", look]
    assert octostore.run(*first, OCTOSTORE_PREVIOUS="of a job around this one").code == 3
    assert (tmp_path / "previous-1").read_text() == ""
    assert octostore.run("run", "job", "--owner", "bob", "--", "bash", "-c", look).code == 3
    previous = json.loads((tmp_path / "previous-2").read_text())
    (before,) = store.claim_job("job", "me").previous[1:]
    assert (previous["owner"], previous["attempt"], previous["how"], previous["error"]) == (
        "ann",
        1,
        "failed",
        "exit code 3\nno disk",
    )
    assert datetime.fromisoformat(previous["ended_at"]) == before.ended_at


def test_text_from_others_is_harmless_in_the_environment(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    store.enqueue("kind", queue="queue", job_id="job")
    lease = store.claim_next("queue", owner="ann $(touch pwned) 件").lease_id
    note = "\x1b[2J`touch pwned`\n'\"件" * 40
    store.release_job("job", lease or "", note=note[:900])
    script = 'printf %s "$OCTOSTORE_PREVIOUS" > previous'
    assert octostore.run("work", "queue", "--until-done", "--", "bash", "-c", script, LC_ALL="C").code == 0
    text = (tmp_path / "previous").read_text(encoding="ascii")
    previous = json.loads(text)
    assert (text.isprintable(), previous["owner"], previous["how"]) == (True, "ann $(touch pwned) 件", "released")
    assert note.startswith(previous["note"])
    assert len(text) < 10_000
    assert not (tmp_path / "pwned").exists()


def test_a_refused_report_changes_nothing(octostore: Octostore, store: library.OctoStore) -> None:
    script = """
        octostore checkpoint '{"step": 3}'; echo $?
        head -c 70000 /dev/zero | tr '\\0' 7 | sed 's/.*/"&"/' | octostore checkpoint -; echo $?
        head -c 2000000 /dev/zero | tr '\\0' 7 | sed 's/.*/"&"/' | octostore checkpoint -; echo $?
        octostore checkpoint '{"step": '; echo $?
        octostore progress 'much' --percent 101; echo $?
        cat $OCTOSTORE_CHECKPOINT_FILE
    """
    done = octostore.run("run", "job", "--", "bash", "-c", script)
    *codes, checkpoint = done.out.split("\n")
    assert codes == ["0", "64", "64", "64", "64"], done.err
    assert json.loads(checkpoint) == {"step": 3}
    assert done.err.count("the limit is 65,536") == 2
    assert store.claim_job("job", "me").checkpoint == {"step": 3}


def test_reports_outside_a_command_are_refused(octostore: Octostore) -> None:
    reports = [octostore.start("progress", "hello"), octostore.start("checkpoint", "1")]
    for report in reports:
        done = report.wait()
        assert done.code == 64
        assert "octostore run" in done.err


def test_a_reporter_that_gives_up_does_no_harm(octostore: Octostore, tmp_path: Path) -> None:
    script = f"echo $OCTOSTORE_RUN_SOCKET > socket; {UNTIL_GO}; octostore progress fine"
    run = octostore.start("run", "job", "--", "bash", "-c", script)
    until(lambda: (tmp_path / "socket").exists() and (tmp_path / "socket").read_text().endswith("\n"))
    path = (tmp_path / "socket").read_text().strip()
    assert Path(path).parent.stat().st_mode & 0o077 == 0  # others cannot even try
    for message in (b"", b"{", b"no JSON\n", b'{"note": "gone"}\n'):
        with socket.socket(socket.AF_UNIX) as reporter:
            reporter.connect(path)
            reporter.sendall(message)
    (tmp_path / "go").touch()
    assert run.wait() == (0, "", "")


# What a command must not know


def test_no_secret_is_visible_in_any_process(octostore: Octostore, path: Path, tmp_path: Path) -> None:
    command = ["bash", "-c", f"env > environment; touch ready; {UNTIL_GO}"]
    run = octostore.start(
        *("run", "job", "--", *command), program=SCRIPT, OCTOSTORE_TOKEN="octo_secret", OCTOSTORE_LEASE_ID=SECRET
    )
    until((tmp_path / "ready").exists)
    check_secrets(run, lease_of(path, "job"), "octo_secret")
    (tmp_path / "go").touch()
    assert run.wait().code == 0
    environment = (tmp_path / "environment").read_text()
    assert "octo_secret" not in environment
    assert SECRET not in environment


def test_no_secret_of_a_server_is_visible_in_any_process(served: Served, tmp_path: Path) -> None:
    script = f"octostore progress 'from within' || exit 1; touch ready; {UNTIL_GO}"
    run = served.octostore.start("run", "job", "--", "bash", "-c", script, program=SCRIPT)
    until((tmp_path / "ready").exists)
    check_secrets(run, lease_of(served.path, "job"), served.server.token)
    assert served.server.get("/jobs/job").json["claim"]["progress"]["note"] == "from within"
    (tmp_path / "go").touch()
    assert run.wait().code == 0


def check_secrets(run: Running, lease_id: str, token: str) -> None:
    guardian = run.guardian
    (command,) = children_of(guardian)
    seen = {pid: secrets_visible_of(pid) for pid in (run.pid, guardian, command)}
    assert all(b"OCTOSTORE_HOME" in one for one in seen.values())
    assert not any(lease_id.encode() in one for one in seen.values())
    assert token.encode() not in seen[command]
