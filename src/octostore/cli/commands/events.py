"""What happened, from the append-only log, oldest first."""

import argparse
from itertools import islice

from octostore.cli import exits
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.console import Console
from octostore.cli.options import positive, whole
from octostore.cli.story import sentence
from octostore.core.events import Event
from octostore.core.replies import EventPage

EXAMPLES = [
    "octostore events --job github-issue-1842",
    "octostore events --follow --json | jq .type    # one document per line, for ever",
    "octostore events --after 4711    # what came after that seq; it has no gaps",
]


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    completed_by(which.add_argument("--job", metavar="J", help="only those of this job"), job_names)
    which.add_argument("--prefix", metavar="P", help="only those of jobs whose names begin with this")
    parser.add_argument("--after", type=whole, default=0, metavar="SEQ", help="only those after this one")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most so many")
    parser.add_argument("--follow", action="store_true", help="stay, and print what happens next, until Ctrl-C")


def run(arguments: Arguments, context: Context) -> int:
    console = context.console
    with context.place.open() as store:
        found = store.events(arguments.after, job_id=arguments.job, prefix=arguments.prefix, follow=arguments.follow)
        events = islice(found, arguments.limit)
        if console.is_json and not arguments.follow:
            page = list(events)
            console.answer(EventPage(events=page, after=page[-1].seq if page else arguments.after))
            return exits.DID
        if arguments.follow:
            console.end_with_reader()
        is_empty = True
        for event in events:
            is_empty = False
            console.answer(event, _line(event, console))
    if is_empty:
        console.remark("there is no such event")
    return exits.DID


def _line(event: Event, console: Console) -> str:
    about = event.job_id or event.session_id or event.queue or ""
    return f"{event.seq:>6}  {event.at:%Y-%m-%d %H:%M:%S}  {console.style(about, 'bold')}  {sentence(event)}"
