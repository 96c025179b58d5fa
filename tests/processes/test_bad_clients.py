"""A short version of the `make faults` run beside clients that misbehave."""

from pathlib import Path

from tests.processes.bad_clients import run

HURRY = ("--write-seconds", "1", "--request-seconds", "1")


def test_nothing_is_lost_beside_clients_that_misbehave_and_they_are_all_cut_off(tmp_path: Path) -> None:
    run(tmp_path, 2, *HURRY, with_bad=True, patience=200)
