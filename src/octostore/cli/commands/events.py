"""Show what happened, from the append-only log, oldest first.

--export writes JSON lines, one event per line with the id of its store, for a file or another program. --verify reads
the whole log and compares it with the store: no event is missing, every claim ended once, and every job and session is
what its events made it. The exit code is 0 if so. It is 70 if not: then either OctoStore has a bug, or something else
has written to the database. --verify needs an admin token, and can run while others work.
"""

import argparse
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from octostore.cli import exits, words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names, session_names
from octostore.cli.console import Console
from octostore.cli.naming import find_similar, told_unknown
from octostore.cli.options import moment, positive, seconds, whole
from octostore.cli.story import told_event
from octostore.cli.verifying import verify
from octostore.core.errors import InvalidInput, NotAllowed
from octostore.core.events import DETAILS, Event
from octostore.core.replies import EventPage

if TYPE_CHECKING:
    from octostore.client.reader import Reader

EXAMPLES = [
    "octostore events --job github-issue-1842",
    "octostore events --session agent-3-main    # a session and its jobs",
    "octostore events --follow --json | jq .type    # one document per line, forever",
    "octostore events --after 4711    # everything after that seq; seqs have no gaps",
    "octostore events --since 1h --type expired --type force_released    # what was lost in the last hour",
    "octostore events --export > log.jsonl",
    "octostore events --verify",
]
FILTERS = ("job", "prefix", "session", "after", "since", "type", "limit", "follow", "export")


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    completed_by(which.add_argument("--job", metavar="J", help="only events of this job"), job_names)
    which.add_argument("--prefix", metavar="P", help="only events of jobs whose names begin with this")
    session = which.add_argument(
        "--session", metavar="S", help="only events of this session (ID or PRINCIPAL/ID) and its jobs"
    )
    completed_by(session, session_names)
    parser.add_argument("--after", type=whole, default=0, metavar="SEQ", help="only events after this sequence number")
    parser.add_argument(
        "--since", type=_since, metavar="TIME", help="only events since then: 10m (ago), or 2026-11-16T06:00:00Z"
    )
    parser.add_argument(
        "--type", action="append", choices=[*DETAILS], metavar="T", help="only events of this type; can be repeated"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="maximum number of events")
    parser.add_argument("--follow", action="store_true", help="keep printing new events until Ctrl-C")
    parser.add_argument("--export", action="store_true", help="write JSON lines")
    parser.add_argument("--verify", action="store_true", help="check the whole log against the store")


def run(arguments: Arguments, context: Context) -> int:
    if arguments.verify:
        _check_alone(arguments)
        return verify(context)
    console = Console(is_json=True) if arguments.export else context.console
    with context.place.look() as store:
        told_with = _origin(store) if arguments.export else {}
        found = store.events(
            arguments.after,
            job_id=arguments.job,
            prefix=arguments.prefix,
            session_id=arguments.session,
            since=arguments.since,
            types=arguments.type,
            follow=arguments.follow,
        )
        events = islice(found, arguments.limit)
        similar = None if arguments.job is None else find_similar(store, arguments.job)
        if similar is not None and not console.is_json:
            console.remark(told_unknown(arguments.job, similar))
        if arguments.follow:
            console.end_with_reader()
        if console.is_json and not arguments.follow and not arguments.export:
            page = list(events)
            console.answer(EventPage(events=page, after=page[-1].seq if page else arguments.after))
        else:
            reader = "" if console.is_json else store.whoami().name
            has_any = _tell(events, console, told_with, reader=reader)
            if not has_any and (similar is None or console.is_json):
                console.remark("no events match")
    return exits.DID


def _since(text: str) -> datetime:
    """A time, or how long ago it was."""
    if text[:4].isdigit() and "-" in text:
        return moment(text)
    try:
        return words.now() - timedelta(seconds=seconds(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a duration nor a time; use 10m (ago) or 2026-11-16T06:00:00Z"
        ) from None
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970") from None


def _origin(store: "Reader") -> dict[str, str | None]:
    """Which store it is, if we may know: a token for a part of the names is not told how the whole stands."""
    try:
        return {"store_id": store.figures().store_id}
    except NotAllowed:
        return {"store_id": None}


def _tell(events: Iterator[Event], console: Console, told_with: dict[str, str | None], *, reader: str) -> bool:
    """Each as it comes, so that a log may be longer than there is memory for. Whether there was any."""
    has_any = False
    for event in events:
        has_any = True
        told = told_with | msgspec.structs.asdict(event) if told_with else event
        console.answer(told, "" if console.is_json else told_event(event, console, reader=reader))
    return has_any


def _check_alone(arguments: Arguments) -> None:
    """A part of the log does not tell whether the whole is sound."""
    given = next((f"--{name}" for name in FILTERS if getattr(arguments, name)), None)
    if given is not None:
        raise InvalidInput("verify", f"checks the whole log and cannot be combined with {given}")
