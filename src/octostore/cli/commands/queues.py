"""List queues, the longest first: what is ready, due later, claimed, dead and done, and what happened lately.

ENQUEUED, FINISHED and FAILED are counts for the last 10 minutes; --json has them for each minute of the last hour. In a
very busy store they may cover less time; the line below the table says how much. A server counts at most once every 10
seconds. Counts stop at 10,000.
"""

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.subcommands import Arguments, Context
from octostore.core.queue_words import pause_in_words
from octostore.core.replies import QueueFigures, QueueList

EXAMPLES = [
    "octostore queues",
    "octostore queues --json",
]
HEADER = (
    "QUEUE",
    "READY",
    "OLDEST",
    "LATER",
    "CLAIMED",
    "DEAD",
    "DONE",
    "ENQUEUED",
    "FINISHED",
    "FAILED",
    "LAST CLAIM",
    "STATE",
)
RECENT_SECONDS = 600


def configure(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_arguments: Arguments, context: Context) -> None:
    with context.address.open_reader() as store:
        listed = store.list_queues()
    context.console.print_result(listed, *_lines(listed, context.console))


def _lines(listed: QueueList, console: Console) -> Iterator[str]:
    now = words.now()
    if not listed.queues:
        yield "no queues"
        yield "  next       octostore enqueue KIND --queue Q"
        return
    yield from console.table(HEADER, [_row(queue, listed, now) for queue in listed.queues])
    covered = min(RECENT_SECONDS, words.seconds_between(listed.rates_since, listed.counted_at))
    recent = "10 minutes" if covered == RECENT_SECONDS else words.duration(int(covered))
    yield console.style(f"ENQUEUED, FINISHED and FAILED: in the last {recent}", "dim")
    yield console.style(f"counted {words.ago(listed.counted_at, now)}", "dim")
    if listed.more:
        yield console.style(f"… and more; these are the {len(listed.queues)} longest", "dim")


def _row(queue: QueueFigures, listed: QueueList, now: datetime) -> tuple[str, ...]:
    def count(number: int) -> str:
        return "" if not number else f"{number:,}+" if number >= listed.counted_to else f"{number:,}"

    def recent(rates: Sequence[int]) -> str:
        return count(sum(rates[-RECENT_SECONDS // listed.bucket_seconds :]))

    return (
        queue.queue,
        count(queue.ready),
        "" if queue.oldest_due_at is None else words.until(now, queue.oldest_due_at),
        count(queue.later),
        count(queue.claimed),
        count(queue.dead),
        count(queue.done),
        recent(queue.rates.enqueued),
        recent(queue.rates.done),
        recent(queue.rates.failed),
        "" if queue.last_claim_at is None else words.ago(queue.last_claim_at, now),
        ", ".join(_state(queue)),
    )


def _state(queue: QueueFigures) -> Iterator[str]:
    if queue.paused:
        yield "paused" if queue.pause is None else pause_in_words(queue.pause)
    if queue.max_claimed is not None:
        yield f"at most {queue.max_claimed:,} claimed at once"
