"""The reference of metrics, from the table of families."""

from collections.abc import Iterator

from docs.references.markdown import FOLDER, code, page, table
from octostore.server.metrics import BATCHES, FAMILIES, SECONDS

PATH = FOLDER / "metrics.md"
ABOUT = """\
`GET /metrics` returns a server's metrics in the Prometheus text format. No token is needed, but `queue_depth` is
included only for a token that can read every job. Counters start at 0 when the server starts. No label contains the
name of a job, an owner or a principal.
"""


def reference() -> str:
    return page("Metrics", "src/octostore/server/metrics.py", _lines())


def _lines() -> Iterator[str]:
    yield from ABOUT.splitlines()
    yield ""
    rows = (
        (code(family.full_name), family.kind, ", ".join(map(code, family.labels)), family.about)
        for family in FAMILIES.values()
    )
    yield from table(["metric", "type", "labels", "meaning"], rows)
    seconds, sizes = (", ".join(f"{bound:g}" for bound in bounds) for bounds in (SECONDS, BATCHES))
    yield from ("", f"Histograms in seconds have the buckets {seconds}. `octostore_batch_size` has {sizes}.")
