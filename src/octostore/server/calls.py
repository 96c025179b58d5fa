"""A request that was let in, and what is the same for all that carry out a command."""

from typing import Any, TypeVar

import msgspec

from octostore.core.commands import AnyCommand, ClaimJob, ClaimNext, ClaimTask, Command, HeartbeatJob, R_co
from octostore.core.errors import LeaseLost
from octostore.core.limits import check_range
from octostore.core.replies import ClaimReply, HeartbeatReply, ReleaseReply
from octostore.server.http import Answer, Request
from octostore.server.principals import Principal
from octostore.server.refusals import bad_token
from octostore.server.router import Route
from octostore.server.services import Services
from octostore.wire.fields import WAIT_MAX_SECONDS

CommandT = TypeVar("CommandT", bound=Command[Any])


class Call(msgspec.Struct):
    route: Route
    params: dict[str, str]
    request: Request
    principal: Principal
    services: Services
    body: Any = None
    query: Any = None

    def command(self, **given: Any) -> Any:
        """What the request stands for, if the token may use the name in it; `given` is what it does not say itself."""
        name = self.params.get("job_id") or getattr(self.body, "job_id", None)
        if name is not None:
            self.principal.require_name(name)
        values = {} if self.body is None else self.body.values()
        return self.route.asks(**{**values, **self.params, "principal": self.principal.name, **given})

    def question(self, **given: Any) -> Any:
        """The same for what only asks, which finds only names that the token may use."""
        values = {} if self.query is None else self.query.values()
        if "prefix" in values:
            values["prefix"] = self.principal.narrowed(values["prefix"])
        if "job_id" in self.params:
            self.principal.require_name(self.params["job_id"])
        return self.route.asks(**{**values, **self.params, **given})

    def timely(self, command: CommandT) -> CommandT:
        """`command`, which is not carried out any more once whoever asked has given up."""
        msgspec.structs.force_setattr(command, "until", self.request.until)
        return command

    async def execute(self, command: Command[R_co]) -> R_co:
        return await self.services.store.execute(self.timely(command))

    @property
    def job_id(self) -> str:
        """The job that the address names, if the token may use that name."""
        job_id = self.params["job_id"]
        self.principal.require_name(job_id)
        return job_id


def admit(principal: Principal, route: Route) -> None:
    """Whether it may use this route at all; about names, the command is asked."""
    if route.scope is not None:
        principal.require(route.scope)
    if route.is_about_all:
        principal.require_everything()


def carried_out(operation: str, **more: Any) -> Route:
    """The route of a command that needs nothing particular, or only `prepare` or `answer`."""
    usual = {"handler": carry_out, "prepare": Call.command, "answer": answer_reply}
    return Route.at(operation, **(usual | more))


def asked(operation: str, **more: Any) -> Route:
    """The same for a question."""
    usual = {"handler": ask, "prepare": Call.question, "answer": answer_reply}
    return Route.at(operation, **(usual | more))


async def ask(call: Call) -> Answer:
    answer: Answer = call.route.answer(call, await call.services.store.ask(call.route.prepare(call)))
    return answer


async def carry_out(call: Call) -> Answer:
    wait = getattr(call.body, "wait_seconds", 0)
    check_range("wait_seconds", wait, 0, WAIT_MAX_SECONDS, " seconds")
    command = call.route.prepare(call)
    try:
        if isinstance(command, ClaimJob | ClaimNext | ClaimTask):
            reply = await _claim(call, command, wait)
        else:
            reply = await call.execute(command)
    except LeaseLost as lost:
        count(call, command, lost)
        raise
    count(call, command, reply)
    answer: Answer = call.route.answer(call, reply)
    return answer


async def _claim(call: Call, command: ClaimJob | ClaimNext | ClaimTask, wait: float) -> ClaimReply:
    reply = await call.services.waiting.claim(call.timely(command), wait, call.request)
    if wait and not await call.services.auth.is_current(call.request, call.principal):
        call.services.waiting.undo(command, reply)
        raise bad_token()
    return reply


def answer_reply(_call: Call, reply: Any) -> Answer:
    return Answer(reply)


def count(call: Call, command: AnyCommand, outcome: Any) -> None:
    """For the metrics: what came of a command."""
    metrics = call.services.metrics
    match outcome:
        case ClaimReply():
            metrics.count("claims", outcome.status)
        case ReleaseReply():
            metrics.count("releases", outcome.outcome)
        case HeartbeatReply():
            metrics.count("heartbeats", "live")
        case LeaseLost() if isinstance(command, HeartbeatJob):
            metrics.count("heartbeats", "lost")
