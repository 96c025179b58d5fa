"""`events --verify`: check whether the log and the store agree."""

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.console import Console
from octostore.cli.progress_bar import ProgressBar
from octostore.cli.subcommands import Context
from octostore.core.verify import PROBLEMS_SHOWN, Verification


def verify(context: Context) -> int:
    with context.address.open() as store, ProgressBar() as bar:
        found = store.verify(lambda seq: bar.say(f"at event {seq:,} …"))
    document = {"is_sound": found.is_sound, **msgspec.structs.asdict(found)}
    context.console.print_result(document, *_lines(found, context.console))
    return exit_codes.SUCCESS if found.is_sound else exit_codes.INTERNAL_ERROR


def _lines(found: Verification, console: Console) -> list[str]:
    counts = {"event": found.events, "claim": found.claims, "job": found.jobs, "session": found.sessions}
    looked_at = ", ".join(words.count(number, noun) for noun, number in counts.items())
    skipped = f" (skipped {found.skipped:,} that kept changing)" if found.skipped else ""
    looked_at = f"{looked_at}{skipped}; up to event {found.last_seq:,}"
    if found.is_sound:
        return [f"{console.style('sound', 'green')}  {looked_at}"]
    more = " or more" if len(found.problems) == PROBLEMS_SHOWN else ""
    verdict = f"{words.count(len(found.problems), 'problem')}{more}"
    return [f"{console.style('not sound', 'red')}  {verdict} in {looked_at}", *map(words.one_line, found.problems)]
