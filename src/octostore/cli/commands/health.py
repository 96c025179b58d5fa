"""Show whether work is getting done: ok, degraded (it is, but somebody should look) or unhealthy (it is not), and why.

Each threshold is DEGRADED[,UNHEALTHY]: the values at which the status changes. Omit one to disable it: with
`--dead 10`, dead jobs never make the status worse than degraded; with `--dead ,10`, the status goes straight to
unhealthy. The exit code is 12 if the status is as bad as --fail-on or worse, 69 if the store cannot be reached, else 0.
This needs a token that can read all jobs; only operators see other principals' sessions.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import get_args

from octostore.cli import exit_codes, words
from octostore.cli.console import Console
from octostore.cli.options import positive_integer, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.core.health import Health, SessionHealth, Threshold, Thresholds
from octostore.core.model import HealthStatus

EXAMPLES = [
    "octostore health",
    "octostore health --fail-on degraded --oldest 5m,30m --dead 10,100",
    "octostore health --json --fail-on never | jq '.reasons[]'",
]
HEADER = ("SESSION", "AGENT", "PHASE", "HEARTBEAT", "JOBS")
COLOURS = {"ok": "green", "degraded": "yellow", "unhealthy": "red"}
BADNESS: list[str] = [*get_args(HealthStatus), "never"]
"""From best to worst."""


def configure(parser: argparse.ArgumentParser) -> None:
    defaults = Thresholds()
    for name, (field, number, what) in _OPTIONS.items():
        default: Threshold = getattr(defaults, field)
        parser.add_argument(
            f"--{name}",
            dest=field,
            type=_threshold(number),
            default=default,
            metavar="D[,U]",
            help=f"{what} (default: {_shown(default, words.duration if number is seconds else str)})",
        )
    parser.add_argument(
        "--fail-on",
        choices=BADNESS[1:],
        default="unhealthy",
        help=f"exit {exit_codes.UNHEALTHY} at this status or worse (default: unhealthy)",
    )


def _threshold(number: Callable[[str], float]) -> Callable[[str], Threshold]:
    def parse(text: str) -> Threshold:
        degraded, _, unhealthy = text.partition(",")
        try:
            return Threshold(number(degraded) if degraded else None, number(unhealthy) if unhealthy else None)
        except InvalidInput:
            raise argparse.ArgumentTypeError(
                f"{text!r} sets unhealthy below degraded; put the smaller value first"
            ) from None

    return parse


def _shown(threshold: Threshold, show: Callable[[float], str]) -> str:
    levels = (threshold.degraded, threshold.unhealthy)
    return ",".join("" if level is None else show(level) for level in levels) if any(levels) else "never"


_OPTIONS: dict[str, tuple[str, Callable[[str], float], str]] = {
    "late": ("late", positive_integer, "owners that have missed heartbeats"),
    "stuck": ("stuck", positive_integer, "owners that send heartbeats but make no progress"),
    "dead": ("dead", positive_integer, "dead jobs"),
    "takeovers": (
        "taken_back",
        positive_integer,
        "claims lost in the last hour: expired, or taken away by an operator",
    ),
    "queued": ("waiting", positive_integer, "queued jobs"),
    "oldest": ("oldest_waiting_seconds", seconds, "age of the oldest queued job, e.g. 5m,1h"),
}


def run(arguments: Arguments, context: Context) -> int:
    given = {field: getattr(arguments, field) for field in Thresholds.__struct_fields__}
    with context.address.open_reader() as store:
        health = store.health(Thresholds(**given))
        reader = "" if context.console.is_json else store.whoami().name
    context.console.print_result(health, *_lines(health, context.console, reader))
    is_too_bad = BADNESS.index(health.status) >= BADNESS.index(arguments.fail_on)
    return exit_codes.UNHEALTHY if is_too_bad else exit_codes.SUCCESS


def _lines(health: Health, console: Console, reader: str) -> Iterator[str]:
    yield console.style(health.status, COLOURS[health.status])
    yield from (f"  {reason}" for reason in health.reasons)
    waited = health.oldest_waiting_seconds
    oldest = "" if waited is None else f", the oldest waiting for {words.duration(waited)}"
    yield f"queued     {health.queued:,}{oldest}"
    odd = [f"{number:,} {what}" for number, what in ((health.late, "late"), (health.stuck, "stuck")) if number]
    yield f"running    {health.running:,}" + (f", of which {' and '.join(odd)}" if odd else "")
    yield f"dead       {health.dead:,}"
    yield f"lost       {words.count(health.takeovers_last_hour, 'claim')} in the last hour"
    yield f"sessions   {health.open_sessions:,}"
    if health.sessions:
        yield from ("", *console.table(HEADER, [_row(session, reader) for session in health.sessions]))


def _row(session: SessionHealth, reader: str) -> tuple[str, ...]:
    age = words.duration(int(session.heartbeat_age_seconds))
    return (
        words.session_name(session.session_id, session.principal, reader),
        session.agent,
        session.phase,
        f"{age} ago" + (" (late)" if session.is_late else ""),
        words.shorten(", ".join(session.jobs), 60),
    )
