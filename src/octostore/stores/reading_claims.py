"""Claims of a time window: choose jobs from a cheap summary, then load only those."""

from collections.abc import Sequence

from octostore.core import questions as q
from octostore.core.claim_replies import ClaimsPage
from octostore.core.claims_window import (
    EndedClaim,
    JobStory,
    attention_of,
    candidates,
    loss_sort_key,
    read_beginnings,
    read_ends,
    sort_key,
)
from octostore.core.events import LogEntry
from octostore.core.model import Job
from octostore.core.moments import to_datetime, to_datetime_or_none
from octostore.core.needs import Needs
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet
from octostore.stores.base import ClaimsFilter, ClaimsFound, Reading
from octostore.stores.reading import job_as_of_now


def list_claims(reading: Reading, ws: WorkingSet, question: q.ListClaims, sources: Sources) -> ClaimsPage:
    seq, now = ws.seq, ws.now
    since = now - round(question.window * 1_000)
    wanted = ClaimsFilter(since, question.prefix or "", question.queue, question.owner, only_lost=question.lost)
    found = reading.find_claims(ws, wanted)
    glances = candidates(question, found.live, read_ends(found.ends, since), now, since)
    chosen = [glance.job_id for glance in glances[: question.limit]]
    stories = []
    if chosen:
        jobs = _jobs_as_of_now(reading, ws, chosen, sources)
        ends = read_ends([*_ends_of(reading, chosen, found, with_next=question.lost), *ws.entries], since)
        stories = _stories(jobs, ends, is_of_losses=question.lost)
    shown = [(story.glance(ws), story) for story in stories if story.matches(question)]
    key = loss_sort_key if question.lost else sort_key
    shown.sort(key=lambda row: key(row[0], now))
    begun = read_beginnings(reading.events_at([token for _, story in shown for token in story.tokens]))
    return ClaimsPage(
        at=to_datetime(now),
        since=to_datetime(since),
        seq=seq,
        rows=[story.view(ws, begun, attention_of(glance, now)) for glance, story in shown],
        more=len(glances) > len(chosen) or not found.is_all,
        last_claim_at=to_datetime_or_none(found.last_claim_at),
    )


def _jobs_as_of_now(reading: Reading, ws: WorkingSet, names: Sequence[str], sources: Sources) -> list[Job]:
    """The jobs as of now: an expired claim has ended, whether or not the log says so."""
    reading.load(ws, Needs(jobs=set(names), sweep_limit=0))
    return [job_as_of_now(ws, name, sources) for name in names]


def _ends_of(reading: Reading, names: Sequence[str], found: ClaimsFound, *, with_next: bool) -> list[LogEntry]:
    """The last ends of claims on each job, and every end it was chosen for; with the ends that followed, if needed."""
    last = {entry.seq: entry for entry in reading.last_ends(names, found.before)}
    chosen = set(names)
    earlier = {entry.seq: entry for entry in found.ends if entry.job_id in chosen and entry.seq not in last}
    following = reading.next_ends(list(earlier.values())) if with_next and earlier else []
    every = last | earlier | {entry.seq: entry for entry in following}
    return [every[seq] for seq in sorted(every)]


def _stories(jobs: Sequence[Job], ends: Sequence[EndedClaim], *, is_of_losses: bool) -> list[JobStory]:
    by_name: dict[str | None, list[EndedClaim]] = {}
    for one in ends:
        by_name.setdefault(one.entry.job_id, []).append(one)
    return [JobStory(job, by_name.get(job.job_id, []), is_of_losses) for job in jobs]
