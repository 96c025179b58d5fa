"""Print the reply to a claim, for people and for scripts."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.console import Console
from octostore.cli.story import describe_attempts
from octostore.core.queue_words import obstacle_in_words, queue_in_words
from octostore.core.replies import ClaimReply, QueueStatus
from octostore.wire.responses import claim_response

if TYPE_CHECKING:
    from octostore.cli.keep import KeptSummary


CHECKPOINT_SHOWN = 2_000
"""In characters; more than elsewhere, because the new owner has to read the checkpoint."""


def print_claim(
    reply: ClaimReply, console: Console, *, lease_only: bool = False, kept: "KeptSummary | None" = None, again: str = ""
) -> int:
    """Return the exit code. A `kept` claim is printed without its lease. `again` holds options the next claim needs."""
    if kept is not None:
        console.print_result(_without_lease(reply, kept), *_kept_lines(reply, kept, console))
    elif console.is_json or not lease_only:
        console.print_result(claim_response(reply), *_lines(reply, console, again))
    elif reply.status == "claimed":
        console.print_lines(reply.lease_id or "")
    else:
        # stdout is for the lease id alone.
        console.print_message(*_lines(reply, console, again))
    return exit_codes.CLAIMS[reply.status]


def _lines(reply: ClaimReply, console: Console, again: str) -> Iterator[str]:
    now = words.now()
    match reply.status:
        case "claimed" if reply.expires_at is not None:
            yield f"{console.style('claimed', 'green')} {reply.job_id} until {words.clock(reply.expires_at, now)} UTC"
            yield f"  lease id   {reply.lease_id}"
            yield from _details(reply)
        case "held" if reply.claimed_at is not None and reply.expires_at is not None:
            yield (
                f"{console.style('held', 'yellow')} {reply.job_id}: {reply.owner} has it (claimed "
                f"{words.ago(reply.claimed_at, now)}, at least {words.until(reply.expires_at, now)} left)"
            )
            if reply.host is not None:
                yield f"  where      {words.host_and_process(reply)}"
            if reply.progress is not None and reply.progress.note:
                yield f"  doing      {words.one_line(reply.progress.note)}"
        case "delayed":
            yield from _delayed(reply, console, now)
        case "done":
            yield f"{console.style('done', 'green')} {reply.job_id}: finished; use --again to claim it anyway"
            if reply.result is not None:
                yield f"  result     {words.as_json(reply.result)}"
        case "dead":
            why = words.one_line(reply.error or "out of attempts or cancelled")
            yield f"{console.style('dead', 'red')} {reply.job_id}: {why}"
            yield f"  next       octostore requeue {words.shell_quote(reply.job_id or '')}"
        case _ if reply.queue_status is not None:
            yield from _empty(reply.queue_status, console, again)


def _delayed(reply: ClaimReply, console: Console, now: datetime) -> Iterator[str]:
    what = f"{console.style('delayed', 'yellow')} {reply.job_id}"
    obstacle = obstacle_in_words(reply)
    if obstacle is not None:
        yield f"{what}: {obstacle}"
    if reply.pause is not None:
        yield f"  resume     octostore queue set {words.shell_quote(reply.queue or '')} --resume"
    elif obstacle is None and reply.available_at is not None:
        when = f"{words.clock(reply.available_at, now)} UTC, in {words.until(reply.available_at, now)}"
        yield f"{what}: cannot be claimed before {when}"


def _empty(status: QueueStatus, console: Console, again: str) -> Iterator[str]:
    yield f"{console.style('empty', 'yellow')}: {queue_in_words(status)}"
    queue = words.shell_quote(status.queue)
    if not status.all_done:
        alone = "or --wait alone: until you get a job, or all are done or dead"
        yield f"  next       octostore next {queue}{again} --wait 5m    # {alone}"
    if status.paused:
        yield f"  resume     octostore queue set {queue} --resume"
    if status.dead:
        yield f"  dead       octostore dead --queue {queue}"


def _without_lease(reply: ClaimReply, kept: "KeptSummary") -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(claim_response(reply)))
    del document["lease_id"]
    return {**document, "kept": kept}


def _kept_lines(reply: ClaimReply, kept: "KeptSummary", console: Console) -> Iterator[str]:
    yield f"{console.style('claimed', 'green')} {reply.job_id} for {reply.owner}"
    silence = f"there is no octostore command for {words.duration(kept.max_silence)}"
    ends = f"or {silence} (no process is watched)" if kept.watched is None else f"{kept.watched} ends, or {silence}"
    yield f"  kept       by process {kept.keeper_pid} until you release it, {ends}"
    yield from _details(reply)
    if not reply.previous:
        start = ", no checkpoint: start at the beginning" if reply.checkpoint is None else ""
        yield f"  attempt    {reply.attempt}{start}"
    first, *others = kept.next
    yield f"  next       {first}"
    yield from (f"             {line}" for line in others)


def _details(reply: ClaimReply) -> Iterator[str]:
    yield f"  fencing    {reply.fencing_token}"
    if reply.kind is not None:
        yield f"  kind       {reply.kind}"
    if reply.payload is not None:
        yield f"  payload    {words.as_json(reply.payload)}"
    if reply.checkpoint is not None:
        command = f"`octostore owner {words.shell_quote(reply.job_id or '')} --json`"
        yield f"  checkpoint {words.preview(reply.checkpoint, CHECKPOINT_SHOWN, command)}"
    if reply.note:
        yield f"  note       {words.one_line(reply.note)}"
    if reply.previous:
        yield f"  attempt    {reply.attempt}, after"
        yield from (f"    {line}" for line in describe_attempts(reply.previous))
