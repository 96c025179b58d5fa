"""What all random histories have: the calls and leases of before, and the comparison after each step."""

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
        """All leases that anybody got, on which job or session, oldest first."""
        self.calls: list[AnyCommand] = []
        """What was asked last, with the leases that were used."""
        self.agree = True

    def run(self, *batch: AnyCommand) -> list[Any]:
        commands: list[AnyCommand] = [self.with_a_lease(command) for command in batch]
        self.agree = False
        answers = self.both.run(commands)
        self.agree = True
        self.calls = [*self.calls, *commands][-KEPT_CALLS:]
        for command, answer in zip(commands, answers, strict=True):
            self.sources += [lease for lease in leases_in(answer, command.principal) if lease not in self.sources]
        return answers

    def with_a_lease(self, command: AnyCommand) -> AnyCommand:
        """For `#n`, the n-th newest lease on a job or session, whichever the command is about: the live ones first.

        For `~n`, those that are over first.
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
            job_id = None  # contract.md: no lock has such a name
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

    # What is told

    @invariant()
    def reads_tell_what_the_model_says(self) -> None:
        self.both.compare_reads()

    @rule()
    def somebody_looks_at_everything(self) -> None:
        self.both.compare_lists()

    def teardown(self) -> None:
        if self.agree:  # or else what was found is told
            self.both.compare_lists()
