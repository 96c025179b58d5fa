"""Answers about the claims of a stretch of time: jobs are chosen at a glance, and only those are looked at closely."""

from collections.abc import Iterator, Sequence

import msgspec

from octostore.core import questions as q
from octostore.core.claim_replies import ClaimsPage
from octostore.core.claims_window import Glance, JobStory, place_of, place_of_loss, read_ends
from octostore.core.given import Given
from octostore.core.moments import to_datetime, to_datetime_or_none
from octostore.core.needs import Needs
from octostore.core.working_set import WorkingSet
from octostore.stores.base import ClaimsFilter, ClaimsFound, Reading
from octostore.stores.reading import settled


def list_claims(reading: Reading, ws: WorkingSet, question: q.ListClaims, given: Given) -> ClaimsPage:
    seq, now = ws.seq, ws.now
    since = now - round(question.window * 1_000)
    place = place_of_loss if question.lost else place_of
    found = reading.find_claims(ws, ClaimsFilter(since, question.prefix or "", question.queue, question.owner))
    candidates = sorted(_candidates(found, question, now, since), key=lambda glance: place(glance, now))
    chosen = [glance.job_id for glance in candidates[: question.limit]]
    stories = _stories(reading, ws, given, chosen, before=found.before, since=since)
    shown = [story for story in stories if story.answers(question)]
    shown.sort(key=lambda story: place(story.glance(ws, only_losses=question.lost), now))
    begun = {entry.seq: entry for entry in reading.events_at([token for story in shown for token in story.tokens])}
    return ClaimsPage(
        at=to_datetime(now),
        since=to_datetime(since),
        seq=seq,
        rows=[story.view(ws, begun) for story in shown],
        more=len(candidates) > len(chosen) or not found.is_all,
        last_claim_at=to_datetime_or_none(found.last_claim_at),
    )


def _candidates(found: ClaimsFound, question: q.ListClaims, now: int, since: int) -> Iterator[Glance]:
    """Each job once. Of one whose claim has run out, the status is not known yet."""
    by_name: dict[str, Glance] = {}
    for glance in (*found.live, *found.lost, *(() if question.lost else found.ended)):
        known = by_name.setdefault(glance.job_id, glance)
        if (glance.ended_at or 0) > (known.ended_at or 0):
            by_name[glance.job_id] = msgspec.structs.replace(known, ended_at=glance.ended_at)
    for glance in by_name.values():
        is_live = glance.is_live(now)
        has_status = question.status in {None, glance.status} or (glance.status == "claimed" and not is_live)
        if has_status and (glance.last_end(now) >= since or (is_live and not question.lost)):
            yield glance


def _stories(
    reading: Reading, ws: WorkingSet, given: Given, names: Sequence[str], *, before: int, since: int
) -> Iterator[JobStory]:
    """Of jobs as they truly stand: what has run out has ended, whether or not the log says so."""
    if not names:
        return
    reading.load(ws, Needs(jobs=set(names), sweep_limit=0))
    jobs = [settled(ws, name, given) for name in names]
    ends = read_ends([*reading.last_ends(names, before), *ws.entries], since)
    for job in jobs:
        yield JobStory(job, ends.get(job.job_id, []))
