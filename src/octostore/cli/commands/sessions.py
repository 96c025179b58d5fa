"""Show sessions, their heartbeats, and what they are doing: all open ones, those with another status, or one in detail.

A session belongs to the principal whose token opened it, or to `local` in your own file. Operators see and name other
principals' sessions as PRINCIPAL/ID. --close ends the session and releases its jobs; its context stays. Only operators
can close a session without its lease.
"""

import argparse
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Literal, get_args

from octostore.cli import words
from octostore.cli.completers import session_names
from octostore.cli.console import Console
from octostore.cli.options import add_lease_id, lease_id_from
from octostore.cli.story import describe_event
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.core.beats import is_late
from octostore.core.errors import InvalidInput
from octostore.core.model import SessionStatus
from octostore.core.replies import SessionPage, SessionView

EXAMPLES = [
    "octostore sessions",
    "octostore sessions agent-3-main    # its agent, context, jobs and latest events",
    "octostore sessions --status expired --json",
    "octostore sessions ci/agent-3-main --close    # a session of the principal ci; for operators",
]
HEADER = ("SESSION", "AGENT", "STATUS", "PHASE", "SINCE", "HEARTBEAT", "LEFT", "JOBS")
JOBS_SHOWN = 3
EVENTS_SHOWN = 10
CONTEXT_SHOWN = 300


def configure(parser: argparse.ArgumentParser) -> None:
    one = parser.add_argument("session", metavar="SESSION", nargs="?", help="session to show: ID, or PRINCIPAL/ID")
    set_completer(one, session_names)
    parser.add_argument(
        "--status", choices=[*get_args(SessionStatus), "all"], help="only sessions with this status (default: open)"
    )
    parser.add_argument("--close", action="store_true", help="end the session and release its jobs")
    add_lease_id(parser, "session")


def run(arguments: Arguments, context: Context) -> None:
    if arguments.close:
        _close(arguments, context)
    elif arguments.session is None:
        _list(arguments.status or "open", context)
    elif arguments.status is None:
        _print_session(arguments.session, context)
    else:
        raise InvalidInput("status", "selects which sessions to list; it cannot be combined with SESSION")


def _close(arguments: Arguments, context: Context) -> None:
    if arguments.session is None:
        raise InvalidInput("close", "needs the SESSION to close")
    with context.address.open() as store:
        reply = store.close_session(arguments.session, lease_id=lease_id_from(arguments.lease_id))
    context.console.print_result(reply, f"closed {arguments.session} and released its jobs")


# A list


def _list(status: SessionStatus | Literal["all"], context: Context) -> None:
    with context.address.open_reader() as store:
        sessions = store.list_sessions(status=None if status == "all" else status)
        reader = "" if context.console.is_json else store.whoami().name
    now = words.now()
    lines = [f"no {'' if status == 'all' else status + ' '}sessions"]
    if sessions:
        lines = context.console.table(HEADER, [_row(session, now, reader) for session in sessions])
    context.console.print_result(SessionPage(sessions=sessions, cursor=None), *lines)


def _row(session: SessionView, now: datetime, reader: str) -> tuple[str, ...]:
    return (
        words.session_name(session.session_id, session.principal, reader),
        session.agent,
        session.status,
        session.phase,
        words.ago(session.opened_at, now),
        words.ago(session.heartbeat_at, now) + (" (late)" if _is_late(session, now) else ""),
        words.until(session.expires_at, now) if session.status == "open" else "",
        "; ".join(_work(session)),
    )


def _is_late(session: SessionView, now: datetime) -> bool:
    return session.status == "open" and is_late(session.heartbeat_at, session.expires_at, now)


def _work(session: SessionView) -> Iterator[str]:
    """Its jobs, in a few words."""
    if session.offered:
        yield f"handed over to {session.agent}, not opened yet"
    if session.jobs:
        yield _first_few(session.jobs)
    if session.in_flight:
        yield f"in flight: {_first_few(session.in_flight)}"


def _first_few(names: list[str]) -> str:
    more = len(names) - JOBS_SHOWN
    return ", ".join(names[:JOBS_SHOWN]) + (f" and {more} more" if more > 0 else "")


# One session


def _print_session(session_id: str, context: Context) -> None:
    with context.address.open_reader() as store:
        session = store.get_session(session_id)
        if context.console.is_json:
            context.console.print_result(session)
            return
        reader = store.whoami().name
        events = deque(store.events(session_id=session_id), maxlen=EVENTS_SHOWN)
    lately = [describe_event(event, context.console, reader=reader) for event in events]
    name = words.session_name(session.session_id, session.principal, reader)
    context.console.print_result(session, *_story(session, name, lately, context.console))


def _story(session: SessionView, name: str, lately: list[str], console: Console) -> Iterator[str]:
    now = words.now()
    yield f"{_headline(session, name, console.style(session.agent, 'bold'))}: {session.phase}"
    for label, text in _details(session, now):
        yield f"  {label:<10}{text}"
    if lately:
        yield "lately"
        yield from lately
        yield console.style(f"  (full history: octostore events --session {words.shell_quote(name)})", "dim")


def _headline(session: SessionView, name: str, agent: str) -> str:
    if session.offered:
        return f"{name} was handed over to {agent}, who has not opened it yet"
    if session.status == "closed":
        return f"{agent} had {name}, which is closed"
    how = "has" if session.status == "open" else "disappeared with"
    return f"{agent} {how} {name}"


def _details(session: SessionView, now: datetime) -> Iterator[tuple[str, str]]:
    heard = f"heartbeat {words.ago(session.heartbeat_at, now)}"
    left = f"{words.until(session.expires_at, now)} left"
    if session.offered:
        yield "offered", f"{words.ago(session.heartbeat_at, now)}, {left}"
    elif session.status == "open":
        yield "late" if _is_late(session, now) else "alive", f"{heard}, {left}"
    else:
        yield "ended", f"{words.ago(session.expires_at, now)} ({words.clock(session.expires_at)} UTC), {heard}"
    yield "since", f"{words.ago(session.opened_at, now)} ({words.clock(session.opened_at)} UTC), by {session.principal}"
    if session.note:
        yield "note", words.one_line(session.note)
    if session.context is not None:
        size = f"{session.context_bytes:,} bytes: " if session.context_bytes is not None else ""
        yield "context", size + words.shorten(words.as_json(session.context), CONTEXT_SHOWN)
    if session.jobs:
        yield "jobs", ", ".join(session.jobs)
    if session.in_flight:
        yield "in flight", ", ".join(session.in_flight)
