"""Traces of commands: the parent span that `run` and `work` pass to their command, with and without tracing."""

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

def write(span):
    with Path({path!r}).open("a") as file:
        file.write(json.dumps(span) + "\\n")

trace.set_tracer_provider(provider_for(write))
"""


Variables = dict[str, Any]


class Traced:
    """Like a launcher that sets up the SDK: every Python process starts with it."""

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


def test_the_command_of_run_is_a_child_of_its_process_span(
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


def test_the_commands_of_work_are_children_of_their_process_spans(
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


def test_without_tracing_the_command_gets_the_context_of_the_enqueue(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    env: Variables = {"TRACEPARENT": INHERITED, "TRACESTATE": "inherited=1"}
    store.enqueue("build", queue="queue", traceparent=ENQUEUED)
    assert octostore.run("work", "queue", "--until-empty", "--", *LOOK, **env).code == 0
    assert seen(tmp_path) == [ENQUEUED]
    store.enqueue("build", queue="queue")
    assert octostore.run("work", "queue", "--until-empty", "--", *LOOK, **env).code == 0
    assert seen(tmp_path) == [INHERITED, "inherited=1"]


def test_enqueue_uses_the_trace_context_of_its_shell(octostore: Octostore, store: library.OctoStore) -> None:
    for number, (given, stored) in enumerate({ENQUEUED: ENQUEUED, "malformed": None, "": None}.items()):
        assert octostore.run("enqueue", "build", "--job-id", f"job-{number}", TRACEPARENT=given).code == 0
        assert store.get_job(f"job-{number}").traceparent == stored
