"""What all random histories share: earlier calls and leases, and a comparison after each step."""

from typing import Any

import msgspec
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from tests.model.histories import SideBySide, leases_in

KEPT_CALLS = 12


class Machine(RuleBasedStateMachine):
    side_by_side: type[SideBySide] = SideBySide

    def __init__(self) -> None:
        super().__init__()
        self.both = self.side_by_side()
        self.sources: list[tuple[str, str | None, str | None]] = []
        """Every lease so far with its job or session, oldest first."""
        self.calls: list[AnyCommand] = []
        """The latest commands, with their leases."""
        self.agree = True

    def run(self, *batch: AnyCommand) -> list[Any]:
        commands: list[AnyCommand] = [self.with_a_lease(command) for command in batch]
        self.agree = False
        replies = self.both.run(commands)
        self.agree = True
        self.calls = [*self.calls, *commands][-KEPT_CALLS:]
        for command, reply in zip(commands, replies, strict=True):
            self.sources += [lease for lease in leases_in(reply, command.principal) if lease not in self.sources]
        return replies

    def with_a_lease(self, command: AnyCommand) -> AnyCommand:
        """Replace `#n` by the n-th newest lease of a job or session, whichever the command needs, live ones first.

        Replace `~n` likewise, ended ones first.
        """
        lease_id = getattr(command, "lease_id", None)
        if lease_id is None or lease_id[0] not in "#~":
            return command
        of_session = getattr(command, "job_id", None) is None
        known = [lease for lease in reversed(self.sources) if (lease[2] if of_session else lease[1]) is not None]
        known.sort(key=lambda lease: self.is_live(*lease) == (lease_id[0] == "~"))
        number = int(lease_id[1:])
        if number >= len(known):
            return command
        secret, job_id, session_id = known[number]
        if isinstance(command, c.ReleaseTask):
            session_id = next((its for lease, _, its in self.sources if lease == secret and its), command.session_id)
        if isinstance(command, c.ReleaseLock) and "#" in (job_id or ""):
            job_id = None  # not a valid name for a lock
        names = {"session_id": session_id, "job_id": job_id}
        if isinstance(command, c.ClaimTask) and session_id is not None:  # the id of one's own session has no slash
            names["principal"], names["session_id"] = session_id.split("/")
        return msgspec.structs.replace(
            command, lease_id=secret, **{field: name for field, name in names.items() if name is not None}
        )

    def is_live(self, secret: str, job_id: str | None, session_id: str | None) -> bool:
        name = self.both.leases.name_of(secret)
        model = self.both.model
        if session_id is not None:
            return session_id in model.sessions and model.sessions[session_id].lease == name
        claim = model.job(job_id or "").claim
        return claim is not None and claim.lease == name

    # Reads

    @invariant()
    def reads_match_the_model(self) -> None:
        self.both.compare_reads()

    @rule()
    def everything_is_listed(self) -> None:
        self.both.compare_lists()

    def teardown(self) -> None:
        if self.agree:  # otherwise keep the first failure
            self.both.compare_lists()
