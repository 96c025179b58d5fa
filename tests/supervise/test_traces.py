"""Traces of commands: where `run` and `work` say that their command belongs, with tracing and without."""

import json
from pathlib import Path
from typing import Any

import octostore as library
from tests.support.processes import ROOT
from tests.support.running import Octostore
from tests.support.spans import Spans, assert_contains_none_of, place_in, place_of

ENQUEUED, INHERITED = (f"00-{digit * 32}-{digit * 16}-01" for digit in "12")
LOOK = ("sh", "-c", 'echo "$TRACEPARENT $TRACESTATE" > seen')
SET_UP = """
import json
from pathlib import Path
from opentelemetry import trace
from tests.support.spans import provider_for

def tell(span):
    with Path({path!r}).open("a") as file:
        file.write(json.dumps(span) + "\\n")

trace.set_tracer_provider(provider_for(tell))
"""


Variables = dict[str, Any]


class Traced:
    """What a launcher does that sets up the SDK: each Python begins with it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "spans"
        start = folder / "start"
        start.mkdir()
        (start / "sitecustomize.py").write_text(SET_UP.format(path=str(self._path)))
        self.env: Variables = {"OCTOSTORE_TRACING": "1", "PYTHONPATH": f"{start}:{ROOT}"}

    @property
    def spans(self) -> Spans:
        spans = Spans()
        spans.extend(json.loads(line) for line in self._path.read_text().splitlines())
        return spans


def seen(folder: Path) -> list[str]:
    return (folder / "seen").read_text().split()


def test_the_command_of_run_belongs_below_its_work(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    traced = Traced(tmp_path)
    env: Variables = {
        **traced.env,
        "TRACEPARENT": INHERITED,
        "TRACESTATE": "inherited=1",
        "OCTOSTORE_LEASE_ID": "lease-secret",
    }
    done = octostore.run("run", "job", "--metadata", '"metadata-secret"', "--", *LOOK, **env)
    assert (done.code, done.err) == (0, "")
    spans = traced.spans
    assert spans.names == ["receive", "settle", "process"]
    (passed_on,) = seen(tmp_path)
    assert place_in(passed_on) == place_of(spans.named("process"))
    (attempt,) = store.get_job("job").previous
    assert place_in(attempt.traceparent) == place_of(spans.named("receive"))
    assert_contains_none_of(["metadata-secret", "lease-secret"], spans)


def test_the_commands_of_work_belong_below_theirs(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    traced = Traced(tmp_path)
    store.enqueue("build", "payload-secret", queue="queue", traceparent=ENQUEUED)
    script = 'echo "$TRACEPARENT" > seen; echo error-secret >&2; exit 3'
    options = ["--until-empty", "--", "sh", "-c", script]
    assert octostore.run("work", "queue", *options, **traced.env).code == 0
    spans = traced.spans
    process = spans.named("process queue")
    assert place_in(*seen(tmp_path)) == place_of(process)
    assert (process["status"], process["attributes"]["error.type"]) == ({"status_code": "ERROR"}, "Failed")
    assert place_of(process["links"][0]) == place_in(ENQUEUED)
    assert_contains_none_of(["payload-secret", "error-secret"], spans)


def test_without_tracing_it_is_where_the_job_was_enqueued(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    env: Variables = {"TRACEPARENT": INHERITED, "TRACESTATE": "inherited=1"}
    store.enqueue("build", queue="queue", traceparent=ENQUEUED)
    assert octostore.run("work", "queue", "--until-empty", "--", *LOOK, **env).code == 0
    assert seen(tmp_path) == [ENQUEUED]
    store.enqueue("build", queue="queue")
    assert octostore.run("work", "queue", "--until-empty", "--", *LOOK, **env).code == 0
    assert seen(tmp_path) == [INHERITED, "inherited=1"]


def test_a_job_is_enqueued_where_its_shell_is(octostore: Octostore, store: library.OctoStore) -> None:
    for number, (said, stored) in enumerate({ENQUEUED: ENQUEUED, "malformed": None, "": None}.items()):
        assert octostore.run("enqueue", "build", "--job-id", f"job-{number}", TRACEPARENT=said).code == 0
        assert store.get_job(f"job-{number}").traceparent == stored
