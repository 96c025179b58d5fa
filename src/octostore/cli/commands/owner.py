"""Show who owns a job, since when, whether they are alive, what they are doing, and what happened before."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import msgspec

from octostore.cli import words
from octostore.cli.completers import job_names
from octostore.cli.console import Console
from octostore.cli.story import describe_attempts
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.reader import Reader
from octostore.core.beats import is_late
from octostore.core.errors import InvalidInput
from octostore.core.queue_words import pause_in_words
from octostore.core.replies import JobOwner, JobView, PauseView

EXAMPLES = [
    "octostore owner github-issue-1842",
    "octostore owner github-issue-1842 --json    # same as GET /jobs/github-issue-1842",
]
LABEL = 10
"""Width of the first column."""


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(parser.add_argument("job", metavar="JOB", help="job name"), job_names)


def run(arguments: Arguments, context: Context) -> None:
    with context.address.open_reader() as store:
        job = store.get_job(arguments.job)
        if not job.is_known:
            _print_unknown(store, job, context.console)
            return
        pause = _find_pause(store, job)
    context.console.print_result(job, *_story(job, pause, context.console), *_operator_hints(job, context))


def _find_pause(store: Reader, job: JobView) -> PauseView | None:
    """Why a queued job is not handed out, if its queue is paused."""
    if job.status != "queued" or job.queue is None:
        return None
    with suppress(InvalidInput):  # names in a store that others have edited may be anything
        return store.queue_status(job.queue).pause
    return None


def _print_unknown(store: Reader, job: JobView, console: Console) -> None:
    from octostore.cli.job_names import find_similar, unknown_job_message  # noqa: PLC0415

    similar = find_similar(store, job.job_id) or []
    document = msgspec.json.decode(msgspec.json.encode(job)) | {"similar": similar}
    console.print_result(document, unknown_job_message(job.job_id, similar))


def _story(job: JobView, pause: PauseView | None, console: Console) -> Iterator[str]:
    now = words.now()
    if job.claim is not None:
        yield f"{console.style(job.claim.owner, 'bold')} has {job.job_id}"
        yield from (f"  {label:<{LABEL}}{text}" for label, text in _describe_owner(job.claim, now, console))
    else:
        yield f"nobody has {job.job_id}: {_describe_free(job, pause, now)}"
        if job.result is not None:
            yield f"  result    {words.as_json(job.result)}"
        if job.error:
            yield f"  error     {words.one_line(job.error)}"
    if job.checkpoint is not None:
        yield f"  checkpoint {words.preview(job.checkpoint)}"
    if job.kind is not None:
        yield f"  job       {job.kind} in queue {job.queue}, {job.attempts} of {job.max_attempts} attempts used"
    if job.previous:
        yield "before"
        yield from (f"  {line}" for line in describe_attempts(job.previous))
        yield console.style(f"  (full history: octostore events --job {words.shell_quote(job.job_id)})", "dim")


def _operator_hints(job: JobView, context: Context) -> Iterator[str]:
    """What an operator needs to take the job away. The lines can be run as they are."""
    if job.claim is None:
        return
    right = " (needs an admin token)" if context.address.is_server else ""
    url = f" --url {words.shell_quote(str(context.address))}" if context.address.source == "--url" else ""
    yield f"to ask the owner to stop, or to take the job away{right}:"
    yield f"  octostore stop{url} {words.shell_quote(job.job_id)}"
    yield f"  octostore force-release{url} {words.shell_quote(job.job_id)} --reason 'taken away by an operator'"


def _describe_owner(claim: JobOwner, now: datetime, console: Console) -> Iterator[tuple[str, str]]:
    heard = f"heartbeat {words.ago(claim.heartbeat_at, now)}"
    left = f"{words.until(claim.expires_at, now)} left"
    if is_late(claim.heartbeat_at, claim.expires_at, now):
        yield console.style("late".ljust(LABEL), "yellow"), f"{heard}, {left}; then the job is free"
    elif claim.stuck and claim.last_progress_at is not None and claim.max_silence is not None:
        silence = words.duration(words.seconds_between(claim.last_progress_at, now))
        limit = words.duration(claim.max_silence)
        yield (
            console.style("stuck".ljust(LABEL), "yellow"),
            f"no progress for {silence} (limit {limit}); {heard}, {left}",
        )
    else:
        yield console.style("alive".ljust(LABEL), "green"), f"{heard}, {left}"
    since = f"{words.ago(claim.claimed_at, now)} ({words.clock(claim.claimed_at)} UTC)"
    yield "since", f"{since}, attempt {claim.attempt}, fencing token {claim.fencing_token}"
    if claim.host is not None:
        yield "where", words.host_and_process(claim)
    if claim.progress is not None:
        yield "doing", words.progress(claim, now)
    stop = claim.stop_requested
    if stop is not None:
        heard = "not delivered yet" if stop.delivered_at is None else f"delivered {words.ago(stop.delivered_at, now)}"
        why = f": {words.one_line(stop.reason)}" if stop.reason else ""
        yield "stop", f"requested by {stop.requested_by} {words.ago(stop.requested_at, now)}, {heard}{why}"
    if claim.metadata is not None:
        yield "metadata", words.as_json(claim.metadata)
    if claim.session_id is not None:
        yield "session", claim.session_id


def _describe_free(job: JobView, pause: PauseView | None, now: datetime) -> str:
    if job.status == "done":
        return "it is done"
    if job.status == "dead":
        return "it is dead (octostore requeue runs it again)"
    later = None if job.available_at is None else words.wait_until(job.available_at, now)
    if job.status != "queued":
        return "it is free" if later is None else f"it is free again in {later}"
    line = f"it is queued in {job.queue}" + ("" if later is None else f", available in {later}")
    return line if pause is None else f"{line}; the queue is {pause_in_words(pause)}"
