"""Show what happened, from the append-only log, oldest first.

--export writes JSON lines, one event per line with the id of its store, for a file or another program. --verify reads
the whole log and checks that no event is missing, that no claim ended twice, and that every job and session matches its
events. The exit code is 0 if so. If it is 70, either OctoStore has a bug or something else has written to the database.
--verify needs an admin token without a prefix, and can run while others work; it skips and counts what keeps changing
meanwhile.
"""

import argparse
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.completers import job_names, session_names
from octostore.cli.console import Console
from octostore.cli.job_names import find_similar, unknown_job_message
from octostore.cli.options import integer, moment, positive_integer, seconds
from octostore.cli.story import describe_event
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.cli.verify import verify
from octostore.core.errors import InvalidInput, NotAllowed
from octostore.core.events import DETAILS, Event
from octostore.core.replies import EventPage

if TYPE_CHECKING:
    from octostore.client.reader import Reader

EXAMPLES = [
    "octostore events --job github-issue-1842",
    "octostore events --session agent-3-main    # a session and its jobs",
    "octostore events --follow --json | jq .type    # one document per line, forever",
    "octostore events --after 4711    # everything after that seq",
    "octostore events --since 1h --type expired --type force_released    # what was lost in the last hour",
    "octostore events --export > log.jsonl",
    "octostore events --verify",
]
FILTERS = ("job", "prefix", "session", "after", "since", "type", "limit", "follow", "export")


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    set_completer(which.add_argument("--job", metavar="J", help="only events of this job"), job_names)
    which.add_argument("--prefix", metavar="P", help="only events of jobs whose names begin with this")
    session = which.add_argument(
        "--session", metavar="ID", help="only events of this session (ID or PRINCIPAL/ID) and its jobs"
    )
    set_completer(session, session_names)
    parser.add_argument(
        "--after", type=integer, default=0, metavar="SEQ", help="only events after this sequence number (default: 0)"
    )
    parser.add_argument(
        "--since", type=_since, metavar="TIME", help="only events since this time: 10m (ago), or 2026-11-16T06:00:00Z"
    )
    parser.add_argument(
        "--type", action="append", choices=[*DETAILS], metavar="T", help="only events of this type; repeatable"
    )
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="maximum number of events")
    parser.add_argument("--follow", action="store_true", help="keep printing new events until Ctrl-C")
    parser.add_argument("--export", action="store_true", help="write JSON lines")
    parser.add_argument("--verify", action="store_true", help="check the whole log against the store")


def run(arguments: Arguments, context: Context) -> int:
    if arguments.verify:
        _check_alone(arguments)
        return verify(context)
    console = Console(is_json=True) if arguments.export else context.console
    with context.address.open_reader() as store:
        origin = _origin(store) if arguments.export else {}
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
            console.print_message(unknown_job_message(arguments.job, similar))
        if arguments.follow:
            console.end_with_reader()
        if console.is_json and not arguments.follow and not arguments.export:
            page = list(events)
            console.print_result(EventPage(events=page, after=page[-1].seq if page else arguments.after))
        else:
            reader = "" if console.is_json else store.whoami().name
            has_any = _print_events(events, console, origin, reader=reader)
            if not has_any and (similar is None or console.is_json):
                console.print_message("no events match")
    return exit_codes.SUCCESS


def _since(text: str) -> datetime:
    """A time, or a duration before now."""
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
    """The store's id; None if the token is limited to a prefix and may not read it."""
    try:
        return {"store_id": store.figures().store_id}
    except NotAllowed:
        return {"store_id": None}


def _print_events(events: Iterator[Event], console: Console, origin: dict[str, str | None], *, reader: str) -> bool:
    """Print each as it arrives, because the log may not fit in memory. Return whether there were any."""
    has_any = False
    for event in events:
        has_any = True
        document = origin | msgspec.structs.asdict(event) if origin else event
        console.print_result(document, "" if console.is_json else describe_event(event, console, reader=reader))
    return has_any


def _check_alone(arguments: Arguments) -> None:
    """Only the whole log can be verified."""
    given = next((f"--{name}" for name in FILTERS if getattr(arguments, name)), None)
    if given is not None:
        raise InvalidInput("verify", f"checks the whole log and cannot be combined with {given}")
