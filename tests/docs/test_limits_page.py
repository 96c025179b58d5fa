"""The limits and numbers on the page on scale are those of the code and of the benchmarks."""

import re

import pytest

from octostore.core import limits
from octostore.server.settings import Settings
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "limits-and-scale.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
SETTINGS = Settings()


@pytest.mark.parametrize(
    "row",
    [
        f"| job name | {limits.JOB_ID_BYTES} bytes, components of {limits.NAME_COMPONENT_BYTES} bytes |",
        f"| metadata | {limits.METADATA_BYTES:,} bytes of JSON |",
        f"| checkpoint, result | {limits.CHECKPOINT_BYTES // 1_024} KiB of JSON |",
        f"| payload, session context | {limits.PAYLOAD_BYTES // 1_024} KiB of JSON |",
        f"| TTL | {limits.TTL_MIN_MS // 1_000} s to {limits.TTL_MAX_MS // 3_600_000} h |",
        f"| wait for a job | {limits.WAIT_MAX_SECONDS // 3_600} h |",
        f"| attempts | {limits.MAX_ATTEMPTS_MAX:,} |",
        f"| commands in a batch | {limits.BATCH_MAX:,} |",
        f"| jobs in a page | {limits.PAGE_MAX:,} |",
        f"| jobs in one `GET /heartbeats` | {limits.HEARTBEATS_MAX} |",
        f"| live claims, except locks | {limits.CLAIMS_PER_PRINCIPAL:,} |",
        f"| locks | {SETTINGS.max_locks} |",
        f"| open sessions | {limits.SESSIONS_PER_PRINCIPAL:,} |",
        f"| queued jobs | {limits.QUEUED_PER_PRINCIPAL:,} |",
        f"| event streams | {SETTINGS.max_streams} |",
        f"| requests | {SETTINGS.requests_per_second:,} per second |",
        f"each write records up to {limits.SWEEP_LIMIT} of them",
        f"counts stop at {limits.QUEUE_COUNT_MAX:,} |",
        f"a server accepts {SETTINGS.max_connections:,}",
    ],
)
def test_the_limits_are_those_of_the_code(row: str) -> None:
    assert row in re.sub(r"\n(?![|\n])", " ", PAGE)


def test_checkpoints_and_results_share_a_limit_and_so_do_payloads_and_contexts() -> None:
    assert limits.CHECKPOINT_BYTES == limits.RESULT_BYTES
    assert limits.PAYLOAD_BYTES == limits.CONTEXT_BYTES


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("one connection | 2,000 |", "| 1 | ours | 1,997 |"),
        ("commands share a commit | 13,900 |", "| 64 | ours | 13,923 |"),
        ("100 in a batch | 22,900 |", "| `POST /batch` | 1 | 22,933 |"),
        ("32 workers | 4,500 |", "| 32 | OctoStore, asyncio | 4,497 |"),
        ("takes 1.08 times", "takes 1.08 times"),
        ("a server uses 66 MiB", "it uses 66 MiB"),
        ("Fifty open live pages take 5%", "4.9%"),
    ],
)
def test_the_rates_are_the_measured_ones(here: str, there: str) -> None:
    assert here in PAGE
    assert there in PERFORMANCE
