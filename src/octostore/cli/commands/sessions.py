"""Workers and their heartbeats: the open sessions, or those of another status."""

import argparse
from datetime import datetime
from typing import get_args

from octostore.cli import exits, words
from octostore.cli.command import Arguments, Context
from octostore.core.model import SessionStatus
from octostore.core.replies import SessionPage, SessionView

EXAMPLES = ["octostore sessions", "octostore sessions --status expired --json"]
HEADER = ("SESSION", "AGENT", "STATUS", "SINCE", "HEARTBEAT", "LEFT", "JOBS")
JOBS_SHOWN = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=[*get_args(SessionStatus), "all"], default="open", help="which ones (open)")


def run(arguments: Arguments, context: Context) -> int:
    status = None if arguments.status == "all" else arguments.status
    with context.place.open() as store:
        sessions = store.list_sessions(status=status)
    now = words.now()
    lines = [f"there is no {'' if status is None else status + ' '}session"]
    if sessions:
        lines = context.console.table(HEADER, [_row(session, now) for session in sessions])
    context.console.answer(SessionPage(sessions=sessions, cursor=None), *lines)
    return exits.DID


def _row(session: SessionView, now: datetime) -> tuple[str, ...]:
    more = len(session.jobs) - JOBS_SHOWN
    return (
        session.session_id,
        session.agent,
        session.status,
        words.ago(session.opened_at, now),
        words.ago(session.heartbeat_at, now),
        words.until(session.expires_at, now) if session.status == "open" else "",
        ", ".join(session.jobs[:JOBS_SHOWN]) + (f" and {more} more" if more > 0 else ""),
    )
