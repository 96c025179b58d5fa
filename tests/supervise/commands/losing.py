"""Loses leases at awkward moments. `losing.py PATH`; prints each command's exit code."""

import os
import signal
import sys

import octostore
from octostore.supervise.child_command import ChildCommand, Ending, StopPolicy
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.guardian import Guardian

STREAMS = (0, 1, 2)


def tell(text: str, *, is_warning: bool = False) -> None:
    del text, is_warning


def command_of(guardian: Guardian, claim: octostore.HeldClaim) -> ChildCommand:
    return ChildCommand(guardian, claim, StopPolicy(stop_grace=0), tell)


def lost_before_its_start(guardian: Guardian, store: octostore.OctoStore) -> Ending:
    with store.hold("early", ttl=3_600) as claim:
        store.force_release("early")
        claim.lost.wait()
        command = command_of(guardian, claim)
        command.start(os.environ, STREAMS)
        claim.let_expire()
        return command.wait()


def lost_while_the_next_one_runs(guardian: Guardian, store: octostore.OctoStore) -> Ending:
    """The thread that reports the loss runs late."""
    with store.hold("first") as claim:
        first = command_of(guardian, claim)
        first.start(os.environ, STREAMS)
        guardian.send(signal.SIGUSR1)
        first.wait()
    with store.hold("next") as claim:
        following = command_of(guardian, claim)
        following.start(os.environ, STREAMS)
        first._kill_as_lost()
        guardian.send(signal.SIGUSR1)
        return following.wait()


def main(path: str) -> None:
    guardian = Guardian(["sleep", "600"], stop_signal=signal.SIGTERM, dispositions=Dispositions())
    with octostore.connect(f"sqlite:///{path}") as store:
        for scene in (lost_before_its_start, lost_while_the_next_one_runs):
            print(scene(guardian, store).code)  # noqa: T201
    guardian.close()


if __name__ == "__main__":
    main(sys.argv[1])
