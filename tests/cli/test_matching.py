"""`requeue --all` and `discard --all`."""

from typing import Any

import pytest

from octostore.cli import exit_codes
from octostore.cli.console import Console
from octostore.cli.matching import operate_on_matching
from octostore.cli.store_address import resolve_store
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import Unreachable
from tests.cli.conftest import Cli, progress_on_terminal

WHY = ("--reason", "the disk is larger now")


@pytest.fixture
def queue(cli: Cli) -> str:
    """A queue with three dead jobs, one of them of another kind."""
    name = cli.new_name("queue")
    for number, kind in enumerate(["import", "import", "export"]):
        cli.store.enqueue(kind, queue=name, job_id=f"{name}/{number}")
        cli.store.cancel(f"{name}/{number}")
    return name


def statuses(cli: Cli, queue: str) -> list[str]:
    return [cli.store.get_job(f"{queue}/{number}").status for number in range(3)]


def test_all_dead_jobs_of_a_queue(cli: Cli, queue: str) -> None:
    done = cli.run("requeue", "--all", "--queue", queue, *WHY)
    assert (done.code, done.out, done.err) == (0, "requeued 3 dead jobs (out of attempts or cancelled)\n", "")
    assert statuses(cli, queue) == ["queued"] * 3
    assert "the disk is larger now" in cli.call("events", "--job", f"{queue}/2").out
    again = cli.call("requeue", "--all", "--queue", queue, *WHY)
    assert (again.code, again.out) == (0, "no dead jobs match; nothing was requeued\n")


def test_all_that_match(cli: Cli, queue: str) -> None:
    one = cli.call("discard", "--all", "--prefix", f"{queue}/", "--kind", "export", *WHY)
    assert (one.code, one.out) == (0, "discarded 1 dead job (out of attempts or cancelled)\n")
    assert statuses(cli, queue) == ["dead", "dead", "free"]
    assert cli.json("requeue", "--all", "--queue", queue, "--keep-attempts", *WHY) == {"changed": 2, "after": None}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "JOB is required: name the jobs, or use --all for every dead job"),
        (["--queue", "q"], "--queue selects from all dead jobs; add --all"),
        (["job", "--kind", "k"], "--kind selects from all dead jobs; add --all"),
        (["job", "--all", *WHY], "--all is for every dead job that matches; leave out the names, or use --prefix"),
        (["--all"], "--reason is required with --all; it is recorded in each job's history"),
        (["--all", "--reason", ""], "--reason is required with --all; it is recorded in each job's history"),
    ],
)
@pytest.mark.parametrize("command", ["requeue", "discard"])
def test_options_that_do_not_fit_together_are_refused(
    cli: Cli, queue: str, command: str, arguments: list[str], problem: str
) -> None:
    refused = cli.call(command, *arguments)
    assert (refused.code, refused.err.splitlines()[0]) == (exit_codes.BAD_INPUT, f"octostore: {problem}")
    assert statuses(cli, queue) == ["dead"] * 3


def test_progress_is_shown_on_a_terminal(cli: Cli, queue: str) -> None:
    with progress_on_terminal() as progress:
        done = cli.call("requeue", "--all", "--queue", queue, *WHY)
    assert done.out == "requeued 3 dead jobs (out of attempts or cancelled)\n"
    assert "".join(progress) == "\r3 requeued\r\x1b[K"


def test_jobs_changed_before_a_failure_are_reported(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_store: Any, *, on_batch: Any, **_options: Any) -> int:
        on_batch(100)
        on_batch(200)
        raise Unreachable("the server cannot be reached", reason="network")

    arguments = Arguments(all=True, jobs=[], reason="why", queue=None, prefix=None, kind=None)
    context = Context(Console(is_json=False), resolve_store(None, is_interactive=False))
    with pytest.raises(Unreachable):
        operate_on_matching(arguments, context, cli.store.discard, fail, "discarded")  # type: ignore[arg-type]
    message = "octostore: discarded 200 dead jobs before stopping; run the command again for the rest\n"
    assert capsys.readouterr().err == message
