"""Warn the person watching a command that heartbeats fail, while there is still time to act."""

from datetime import datetime, timedelta

from octostore.client.hold import HeldClaim
from octostore.stores.clock import boottime
from octostore.supervise.notify import Notify

AFTER_SECONDS = 1.0
"""Shorter failures are not reported."""


class Outage:
    """Reported once when it starts, and once when it ends."""

    def __init__(self, claim: HeldClaim, notify: Notify) -> None:
        self._claim = claim
        self._notify = notify
        self._since: float | None = None
        self._is_reported = False

    def report(self, stop_at: float) -> None:
        """`stop_at` is when the command will be stopped unless a heartbeat succeeds, on the `boottime` clock."""
        fault, job = self._claim.heartbeat_fault, self._claim.job_id
        if fault is None:
            if self._is_reported:
                self._notify(f"heartbeats for {job} are getting through again", is_warning=True)
            self._since, self._is_reported = None, False
            return
        now = boottime()
        self._since = now if self._since is None else self._since
        if not self._is_reported and now - self._since >= AFTER_SECONDS:
            self._is_reported = True
            until = datetime.now().astimezone() + timedelta(seconds=stop_at - now)
            self._notify(
                f"heartbeats for {job} are not getting through ({fault}); the command will be stopped at "
                f"{until:%H:%M:%S} unless one gets through",
                is_warning=True,
            )
