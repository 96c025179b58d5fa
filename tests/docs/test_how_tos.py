"""What the how-tos say to type, to install and to configure is done for real.

Blocks of `sh` are run from top to bottom, in one shell for each page; the `text` after one is what it prints. Crontabs,
units and workflows (`crontab`, `ini`, `yaml`) are run as cron, systemd and GitHub would, with other paths.
"""

import importlib
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import SERVER_URLS, Machine, Process, blocks_of, check_printed, follow, replaced
from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.server import ServerProcess

PAGES = {
    name: ROOT / "docs" / "how-to" / f"{name}.md"
    for name in ("backup", "cron", "github-actions", "migrations", "systemd", "traces")
}
URL = SERVER_URLS[1]
NewMachine = Callable[[str], Machine]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as process:
        yield process
        process.check_has_not_failed()


@pytest.fixture
def new_machine(tmp_path: Path) -> Iterator[NewMachine]:
    with ExitStack() as machines:
        yield lambda name: machines.enter_context(Machine(tmp_path / name))


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def types_of(server: ServerProcess, job: str) -> list[str]:
    return [event["type"] for event in server.events(job)]


# What a reader types


def test_a_token_for_cron_can_be_read_by_nobody_else(new_machine: NewMachine) -> None:
    machine = new_machine("machine")
    follow(blocks_of(PAGES["cron"]), machine)
    token = machine.folder / "nightly.token"
    assert token.read_text(encoding="utf-8").startswith("octo_")
    assert token.stat().st_mode & 0o077 == 0


def test_a_store_is_backed_up_restored_and_moved(new_machine: NewMachine) -> None:
    follow(blocks_of(PAGES["backup"]), new_machine("machine"))


def test_a_program_and_a_worker_are_traced(new_machine: NewMachine) -> None:
    machine = new_machine("machine")
    program = Path(sys.executable).with_name("opentelemetry-instrument")
    machine.script("bin/opentelemetry-instrument", f'exec {program} "$@"')
    follow(blocks_of(PAGES["traces"], under="Turn it on"), machine)


def test_a_command_continues_the_trace_of_its_job(new_machine: NewMachine) -> None:
    machine = new_machine("machine")
    (continuing,) = blocks_of(PAGES["traces"], "python")
    save_trace_id = "    open('seen', 'w').write(format(trace.get_current_span().get_span_context().trace_id, '032x'))"
    (machine.folder / "report.py").write_text(replaced(continuing.text, {"    ...": save_trace_id}), "utf-8")
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    machine.do(f"TRACEPARENT=00-{trace_id}-b7ad6b7169203331-01 octostore enqueue report --queue reports")
    machine.do("octostore work reports --until-empty -- python3 report.py")
    assert lines_of(machine.folder / "seen") == [trace_id]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(tmp_path_factory.mktemp("migrated") / "machine") as machine:
        follow(blocks_of(PAGES["migrations"]), machine)
        yield machine


def test_one_of_four_replicas_migrates_and_all_go_on(migrated: Machine) -> None:
    code, printed = migrated.start(["octostore", "events", "--job", "migrate-2026-11"]).end()
    claimed, finished = printed.splitlines()
    assert code == 0
    assert claimed.endswith("claimed it")
    assert finished.endswith("finished it")


def test_each_replica_tries_a_failing_migration_once(migrated: Machine) -> None:
    _shebang, _, entrypoint = (migrated.folder / "entrypoint.sh").read_text(encoding="utf-8").partition("\n")
    migrated.script("failing.sh", replaced(entrypoint, {"2026-11": "2027-01", "python3 migrate.py": "sh -c 'exit 3'"}))
    replicas = [migrated.start(["./failing.sh", "echo", "serves"]) for _ in range(3)]
    assert [code for code, _ in (replica.end() for replica in replicas)] == [3] * 3
    _code, printed = migrated.start(["octostore", "events", "--job", "migrate-2027-01"]).end()
    assert printed.count("failed: exit code 3") == 3


def test_a_migration_that_wakes_up_too_late_is_refused(migrated: Machine) -> None:
    with closing(sqlite3.connect(migrated.folder / "app.db")) as db:
        with db:
            db.execute("UPDATE schema SET version = 10, fence = 99")
            db.execute("DROP TABLE customers")
        code, printed = migrated.start(["python3", "migrate.py"], {"OCTOSTORE_FENCING_TOKEN": "98"}).end()
        assert code == 1
        assert "StaleToken" in printed
        assert db.execute("SELECT version FROM schema").fetchall() == [(10,)]


# What cron does


def crontab(number: int, replacements: dict[str, object]) -> tuple[dict[str, str], str]:
    """Return the settings and the command of one of the page's crontabs."""
    text = replaced(blocks_of(PAGES["cron"], "crontab")[number].text, replacements)
    *settings, line = text.splitlines()
    command = re.fullmatch(r"(?:\S+ ){5} *(.+)", line)
    assert command is not None
    assert not re.search(r"(?<!\\)%", command.group(1)), "cron would cut it there"
    return dict(setting.split("=", 1) for setting in settings), command.group(1).replace("\\%", "%")


def start_by_cron(machine: Machine, number: int, replacements: dict[str, object]) -> Process:
    settings, command = crontab(number, {"/opt/octostore/bin": machine.bin, **replacements})
    env = {"HOME": str(machine.folder), "LOGNAME": "somebody", "SHELL": "/bin/sh", **settings}
    return machine.start_bare(["/bin/sh", "-c", command], env)


def served(server: ServerProcess, machine: Machine, report: Path) -> dict[str, object]:
    token = machine.secret("token", server.new_token("cron", prefix="nightly-"))
    return {URL: server.url, "/etc/octostore/nightly.token": token, "/usr/local/bin/report.sh": report}


def test_one_machine_runs_what_is_in_the_crontabs_of_all(
    server: ServerProcess, new_machine: NewMachine, tmp_path: Path
) -> None:
    machines = [new_machine(name) for name in ("web-1", "web-2", "late")]
    done = tmp_path / "done"
    report = machines[0].script("report.sh", f"echo a report >> {done}")
    *both, late = [(machine, 0, served(server, machine, report)) for machine in machines]
    started = [start_by_cron(*one) for one in both]
    until(lambda: any(process.has_ended for process in started))
    until(lambda: bool(lines_of(done)))

    ((skipped, holding),) = [(one, other) for one, other in (started, started[::-1]) if one.has_ended]
    assert skipped.end() == (0, "")
    # The clock of the late machine is behind, so it starts after the report has finished.
    assert start_by_cron(*late).end() == (0, "")
    assert not holding.has_ended
    holding.send_to_group(signal.SIGTERM)
    holding.end()
    assert lines_of(done) == ["a report"]
    assert types_of(server, "nightly-report") == ["claimed", "released"]


def test_a_machine_that_dies_is_replaced_in_the_same_night(
    server: ServerProcess, new_machine: NewMachine, tmp_path: Path
) -> None:
    machines = [new_machine(name) for name in ("web-1", "web-2", "web-3")]
    done, hangs = tmp_path / "done", tmp_path / "hangs"
    report = machines[0].script("report.sh", f"mkdir {hangs} 2> /dev/null && exec sleep 60\necho a report >> {done}")
    started = [
        start_by_cron(machine, 1, {**served(server, machine, report), "--ttl 1m": "--ttl 2"}) for machine in machines
    ]
    until(hangs.exists)
    (job,) = server.get("/jobs?status=claimed").json["jobs"]
    assert re.fullmatch(r"nightly-report-\d{4}-\d\d-\d\d", job["job_id"])
    os.kill(int(job["owner"].rpartition(":")[2]), signal.SIGKILL)

    ended = [process.end() for process in started]
    assert sorted(code for code, _ in ended if code in {0, 10}) == [0, 10]
    assert lines_of(done) == ["a report"]
    assert types_of(server, job["job_id"]) == ["claimed", "expired", "claimed", "done"]
    logged = [line for machine in machines for line in lines_of(machine.folder / "report.log")]
    assert any("is already done" in line for line in logged)


def test_on_one_machine_a_slow_run_is_not_overtaken(new_machine: NewMachine, tmp_path: Path) -> None:
    machine = new_machine("machine")
    done, go = tmp_path / "done", tmp_path / "go"
    sync = machine.script("sync.sh", f"echo synced >> {done}\nwhile [ ! -e {go} ]; do sleep 0.02; done")
    first = start_by_cron(machine, 2, {"/usr/local/bin/sync.sh": sync})
    until(done.exists)
    assert start_by_cron(machine, 2, {"/usr/local/bin/sync.sh": sync}).end() == (0, "")
    go.touch()
    assert first.end() == (0, "")
    assert lines_of(done) == ["synced"]


# What systemd does

UNITS = dict(
    re.findall(
        r"^Save this as `([\w-]+\.(?:service|timer))`.*?^```ini\n(.*?)^```$",
        PAGES["systemd"].read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
KEEPS_WAITING = "trap 'echo TERM >> {log}; kill $!; exit 143' TERM\nsleep 60 &\necho started >> {log}\nwait $!"


def setting(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def start_by_systemd(machine: Machine, unit: str) -> Process:
    (command,) = setting(unit, "ExecStart")
    return machine.start(shlex.split(command), dict(pair.split("=", 1) for pair in setting(unit, "Environment")))


def stop_by_systemd(process: Process, unit: str) -> None:
    assert setting(unit, "KillMode") == ["mixed"]  # the signal goes to the process that systemd started
    process.send(signal.SIGTERM)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_accepts_the_units(new_machine: NewMachine) -> None:
    machine = new_machine("machine")
    assert sorted(UNITS) == [
        "nightly-report.service",
        "nightly-report.timer",
        "octostore.service",
        "review-worker.service",
    ]
    for name, unit in UNITS.items():
        local_unit = unit.replace("/opt/octostore/bin/", f"{machine.bin}/")
        (machine.folder / name).write_text(re.sub(r"/usr/local/bin/\S+", "/bin/true", local_unit), encoding="utf-8")
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(machine.folder / name) for name in UNITS)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_a_unit_for_a_job_is_skipped_elsewhere_and_can_be_stopped(
    server: ServerProcess, new_machine: NewMachine, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    machine = new_machine("machine")
    unit = replaced(
        UNITS["nightly-report.service"],
        {
            "/opt/octostore/bin": machine.bin,
            URL: server.url,
            "--min-hold 1m": "--min-hold 1s",
            "/etc/octostore/reports.token": machine.secret("token", server.new_token("reports", prefix="nightly-")),
            "/usr/local/bin/report.sh": machine.script("report.sh", KEEPS_WAITING.format(log=log)),
        },
    )
    (successes,) = setting(unit, "SuccessExitStatus")
    running = start_by_systemd(machine, unit)
    until(log.exists)
    code, printed = start_by_systemd(machine, unit).end()
    assert str(code) in successes.split(), printed
    stop_by_systemd(running, unit)
    code, printed = running.end()
    assert str(code) in successes.split(), printed
    assert lines_of(log) == ["started", "TERM"]
    assert types_of(server, "nightly-report") == ["claimed", "released"]


def test_a_unit_for_a_worker_drains(server: ServerProcess, new_machine: NewMachine, tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    machine = new_machine("machine")
    review = machine.script("review.sh", f"touch {started}\nwhile [ ! -e {go} ]; do sleep 0.02; done\necho looks good")
    unit = replaced(
        UNITS["review-worker.service"],
        {
            "/opt/octostore/bin": machine.bin,
            URL: server.url,
            "/etc/octostore/reviews.token": machine.secret("token", server.new_token("reviews")),
            "/usr/local/bin/review.sh": review,
        },
    )
    for job in ("review-1", "review-2"):
        server.post("/jobs", {"kind": "review", "queue": "reviews", "job_id": job})
    worker = start_by_systemd(machine, unit)
    until(lambda: len(server.get("/jobs?status=claimed").json["jobs"]) == 2)
    server.post("/jobs", {"kind": "review", "queue": "reviews", "job_id": "review-3"})
    until(started.exists)
    stop_by_systemd(worker, unit)
    worker.hear("no new jobs")
    go.touch()
    code, printed = worker.end()
    assert code == 0, printed
    jobs = [server.get(f"/jobs/review-{number}").json for number in (1, 2, 3)]
    assert [job["status"] for job in jobs] == ["done", "done", "queued"]
    assert jobs[0]["result"] == "looks good"


def test_a_unit_for_the_server_serves(tmp_path: Path) -> None:
    unit = UNITS["octostore.service"]
    assert setting(unit, "Environment") == [f"OCTOSTORE_HOME=/var/lib/{setting(unit, 'StateDirectory')[0]}"]
    _octostore, serve, *options = shlex.split(setting(unit, "ExecStart")[0])
    assert serve == "serve"
    with ServerProcess(tmp_path / "octostore", *options) as server:
        assert server.get("/health", headers={"Host": "locks.example.org"}).status == 200
        assert server.stop() == 0


# What GitHub does


def steps() -> dict[str, dict[str, Any]]:
    """Return the named steps of the workflow."""
    (block,) = blocks_of(PAGES["github-actions"], "yaml")
    workflow = importlib.import_module("yaml").safe_load(block.text)
    return {step["name"]: step for step in workflow["jobs"]["deploy"]["steps"] if "name" in step}


class Runner:
    """Runs the step that deploys. A deploy ends when `go` exists."""

    def __init__(self, machine: Machine, server: ServerProcess, ttl: str = "2m") -> None:
        self.log, self.go = machine.folder / "log", machine.folder / "go"
        self._machine, self._server, self._ttl = machine, server, ttl
        self._token = server.new_token("ci", prefix="deploy-")
        machine.script(
            "deploy.sh",
            "octostore progress 'half of the machines' --percent 50\n"
            'echo "$GITHUB_RUN_ID begins${OCTOSTORE_TOKEN+, and has the token}" >> log\n'
            "while [ ! -e go ]; do sleep 0.02; done\n"
            'echo "$GITHUB_RUN_ID ends" >> log',
        )

    def deploy(self, run_id: int) -> Process:
        step = steps()["Deploy"]
        assert self._token not in step["run"]
        values = {URL: self._server.url, "${{ secrets.OCTOSTORE_TOKEN }}": self._token}
        script = self._machine.folder / f"step-{run_id}.sh"
        script.write_text(replaced(step["run"], {"--ttl 2m": f"--ttl {self._ttl}"}), encoding="utf-8")
        return self._machine.start(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            {
                "GITHUB_REPOSITORY": "acme/shop",
                "GITHUB_RUN_ID": str(run_id),
                "GITHUB_ACTOR": "mona",
                "GITHUB_SHA": "3f1c2aa",
                **{name: values[value] for name, value in step["env"].items()},
            },
        )

    def until_begun(self, run_id: int) -> None:
        until(lambda: f"{run_id} begins" in lines_of(self.log))

    def until_waiting(self) -> None:
        until(lambda: b"\noctostore_waiting_claims 1.0\n" in self._server.get("/metrics").body)

    def type(self, line: str) -> str:
        """Run a line as an operator."""
        env = {"OCTOSTORE_URL": self._server.url, "OCTOSTORE_TOKEN": self._server.token}
        code, printed = self._machine.start(["bash", "-c", line], env).end()
        assert code == 0, printed
        return printed

    def story(self) -> list[str]:
        return types_of(self._server, "deploy-production")


def typed_on_the_page(start: str) -> tuple[str, str]:
    """Return a line of a `console` block, and what it prints."""
    for block in blocks_of(PAGES["github-actions"], "console"):
        line, _, printed = block.text.removeprefix("$ ").partition("\n")
        if line.startswith(start):
            return line, printed
    raise AssertionError(start)


def test_deploys_wait_for_each_other_and_anybody_sees_who_deploys(
    server: ServerProcess, new_machine: NewMachine
) -> None:
    runner = Runner(new_machine("runner"), server)
    first = runner.deploy(9283746)
    runner.until_begun(9283746)
    second = runner.deploy(9283747)
    runner.until_waiting()
    line, printed = typed_on_the_page("octostore owner ")
    check_printed(printed, runner.type(line))

    runner.go.touch()
    assert [first.end()[0], second.end()[0]] == [0, 0]
    assert lines_of(runner.log) == ["9283746 begins", "9283746 ends", "9283747 begins", "9283747 ends"]
    assert runner.story() == ["claimed", "released"] * 2


def test_a_cancelled_deploy_releases_the_job(server: ServerProcess, new_machine: NewMachine) -> None:
    runner = Runner(new_machine("runner"), server)
    deploy = runner.deploy(1)
    runner.until_begun(1)
    deploy.send(signal.SIGINT)  # GitHub signals only the process of the step
    assert deploy.end()[0] == 130
    assert runner.story() == ["claimed", "released"]
    assert "stopped" in server.get("/jobs/deploy-production").json["note"]


def test_a_deploy_whose_runner_dies_is_followed_by_the_next(server: ServerProcess, new_machine: NewMachine) -> None:
    runner = Runner(new_machine("runner"), server, ttl="2")
    deploy = runner.deploy(1)
    runner.until_begun(1)
    following = runner.deploy(2)
    runner.until_waiting()
    deploy.send(signal.SIGKILL)
    runner.until_begun(2)
    runner.go.touch()
    assert following.end()[0] == 0
    assert runner.story() == ["claimed", "expired", "claimed", "released"]


def test_a_deploy_that_hangs_is_stopped_when_its_job_is_taken_away(
    server: ServerProcess, new_machine: NewMachine
) -> None:
    runner = Runner(new_machine("runner"), server, ttl="2")
    deploy = runner.deploy(1)
    runner.until_begun(1)
    runner.type(typed_on_the_page("octostore force-release ")[0])
    assert deploy.end()[0] == 20
    assert lines_of(runner.log) == ["1 begins"]
