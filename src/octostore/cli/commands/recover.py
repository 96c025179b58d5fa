"""Record every expired lease now, and show which jobs were recovered, and why.

You never have to run this: an expired lease has no effect, and every write records some of the expired leases.
"""

import argparse

from octostore.cli import words
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = ["octostore recover", "octostore recover --json | jq '.recovered[].job_id'"]
HEADER = ("JOB", "OWNER", "LAST HEARTBEAT", "TTL", "EXPIRED", "NOW")


def configure(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_arguments: Arguments, context: Context) -> None:
    with context.address.open() as store:
        recovered = store.recover()
    now = words.now()
    rows = [
        (
            taken.job_id,
            taken.owner,
            words.clock(taken.heartbeat_at, now),
            words.duration(taken.ttl),
            words.ago(taken.expired_at, now),
            taken.status,
        )
        for taken in recovered
    ]
    lines = context.console.table(HEADER, rows) if rows else ["no expired leases; nothing to recover"]
    context.console.print_result({"recovered": recovered, "is_complete": True}, *lines)
