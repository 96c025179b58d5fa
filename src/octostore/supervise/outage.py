"""Heartbeats that do not get through, for whoever watches the command and could still do something about it."""

from datetime import datetime, timedelta

from octostore.client.hold import HeldClaim
from octostore.stores.clock import boottime
from octostore.supervise.telling import Tell

AFTER_SECONDS = 1.0
"""What is over by then was no outage."""


class Outage:
    """Said once, and once more when it is over."""

    def __init__(self, claim: HeldClaim, tell: Tell) -> None:
        self._claim = claim
        self._tell = tell
        self._since: float | None = None
        self._has_told = False

    def mention(self, stop_at: float) -> None:
        """`stop_at` is when the command is stopped, unless a heartbeat gets through, on the clock of `boottime`."""
        fault, job = self._claim.heartbeat_fault, self._claim.job_id
        if fault is None:
            if self._has_told:
                self._tell(f"heartbeats for {job} are getting through again", is_warning=True)
            self._since, self._has_told = None, False
            return
        now = boottime()
        self._since = now if self._since is None else self._since
        if not self._has_told and now - self._since >= AFTER_SECONDS:
            self._has_told = True
            until = datetime.now().astimezone() + timedelta(seconds=stop_at - now)
            self._tell(
                f"heartbeats for {job} are not getting through ({fault}); the command will be stopped at "
                f"{until:%H:%M:%S} unless one does",
                is_warning=True,
            )
