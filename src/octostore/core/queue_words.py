"""What a queue contains, in words: for people and agents who found nothing to claim."""

from collections.abc import Iterator

from octostore.core.replies import ClaimReply, PauseView, QueueStatus


def queue_in_words(status: QueueStatus) -> str:
    """One sentence, without its full stop."""
    queue = f"queue {status.queue}"
    settled = ", ".join(_settled(status))
    if not status.all_done:
        others = ", ".join([*_unsettled(status), *([f"{_count(status, status.dead)} dead"] if status.dead else [])])
        nothing = f"{queue} is {_paused(status)}" if status.paused else f"nothing to claim in {queue} now"
        return f"{nothing}: {others or 'others are at work'}"
    return _all_settled(status, queue, settled) + (f"; it is {_paused(status)}" if status.paused else "")


def _paused(status: QueueStatus) -> str:
    return "paused" if status.pause is None else pause_in_words(status.pause)


def pause_in_words(pause: PauseView) -> str:
    return f"paused by {pause.by}" + (f" ({pause.reason})" if pause.reason else "")


def obstacle_in_words(reply: ClaimReply) -> str | None:
    """Why the queue of a delayed job hands out nothing; None if the job only waits for its time."""
    if reply.pause is not None:
        return f"its queue {reply.queue} is {pause_in_words(reply.pause)}"
    if reply.max_claimed is not None:
        return f"its queue {reply.queue} is full: {_limit(reply.max_claimed)}"
    return None


def _limit(max_claimed: int) -> str:
    return f"only {max_claimed:,} may be claimed at once"


def _all_settled(status: QueueStatus, queue: str, settled: str) -> str:
    if status.kinds is not None:
        return f"nothing of kind {' or '.join(status.kinds)} is left in {queue}" + (
            f" ({settled} in all)" if settled else ""
        )
    if not settled:
        return f"there are no jobs in {queue}, not even finished ones; check its name"
    return f"every job in {queue} is done or dead: {settled}"


def _unsettled(status: QueueStatus) -> Iterator[str]:
    if status.ready:
        limit = "" if status.max_claimed is None else f" ({_limit(status.max_claimed)})"
        yield f"{_count(status, status.ready)} ready{limit}"
    if status.claimed:
        more = ", …" if status.claimed > len(status.owners) else ""
        yield f"{_count(status, status.claimed)} claimed by {', '.join(status.owners)}{more}"
    if status.later:
        due = "" if status.available_at is None else f" (the first at {status.available_at:%Y-%m-%d %H:%M:%S} UTC)"
        yield f"{_count(status, status.later)} due later{due}"


def _settled(status: QueueStatus) -> Iterator[str]:
    for number, word in ((status.done, "done"), (status.dead, "dead")):
        if number:
            yield f"{_count(status, number)} {word}"


def _count(status: QueueStatus, number: int) -> str:
    return f"{number:,}+" if number >= status.counted_to else f"{number:,}"
