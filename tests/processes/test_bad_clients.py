"""The short form of the run of `make faults` beside clients that do not behave."""

from pathlib import Path

from tests.processes.bad_clients import run

HURRY = ("--write-seconds", "1", "--request-seconds", "1")


def test_nothing_is_lost_beside_clients_that_do_not_behave_and_all_of_those_are_cut_off(tmp_path: Path) -> None:
    run(tmp_path, 2, *HURRY, with_bad=True, patience=60)
