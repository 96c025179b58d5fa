"""Answers about the claims of a stretch of time: jobs are chosen at a glance, and only those are looked at closely."""

from collections.abc import Sequence

from octostore.core import questions as q
from octostore.core.claim_replies import ClaimsPage
from octostore.core.claims_window import (
    EndedClaim,
    JobStory,
    attention_of,
    candidates,
    place_of,
    place_of_loss,
    read_beginnings,
    read_ends,
)
from octostore.core.given import Given
from octostore.core.moments import to_datetime, to_datetime_or_none
from octostore.core.needs import Needs
from octostore.core.working_set import WorkingSet
from octostore.stores.base import ClaimsFilter, Reading
from octostore.stores.reading import settled


def list_claims(reading: Reading, ws: WorkingSet, question: q.ListClaims, given: Given) -> ClaimsPage:
    seq, now = ws.seq, ws.now
    since = now - round(question.window * 1_000)
    wanted = ClaimsFilter(since, question.prefix or "", question.queue, question.owner, only_lost=question.lost)
    found = reading.find_claims(ws, wanted)
    glances = candidates(question, found.live, read_ends(found.ends, since), now, since)
    chosen = [glance.job_id for glance in glances[: question.limit]]
    stories = _stories(reading, ws, given, chosen, before=found.before, since=since) if chosen else []
    shown = [(story.glance(ws, only_losses=question.lost), story) for story in stories if story.answers(question)]
    place = place_of_loss if question.lost else place_of
    shown.sort(key=lambda row: place(row[0], now))
    begun = read_beginnings(reading.events_at([token for _, story in shown for token in story.tokens]))
    return ClaimsPage(
        at=to_datetime(now),
        since=to_datetime(since),
        seq=seq,
        rows=[story.view(ws, begun, attention_of(glance, now)) for glance, story in shown],
        more=len(glances) > len(chosen) or not found.is_all,
        last_claim_at=to_datetime_or_none(found.last_claim_at),
    )


def _stories(
    reading: Reading, ws: WorkingSet, given: Given, names: Sequence[str], *, before: int, since: int
) -> list[JobStory]:
    """Of jobs as they truly stand: what has run out has ended, whether or not the log says so."""
    reading.load(ws, Needs(jobs=set(names), sweep_limit=0))
    jobs = [settled(ws, name, given) for name in names]
    ends: dict[str | None, list[EndedClaim]] = {}
    for one in read_ends([*reading.last_ends(names, before), *ws.entries], since):
        ends.setdefault(one.entry.job_id, []).append(one)
    return [JobStory(job, ends.get(job.job_id, [])) for job in jobs]
