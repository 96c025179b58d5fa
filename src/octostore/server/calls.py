"""A request that was let in, for its handler."""

from typing import Any, TypeVar

import msgspec

from octostore.core.commands import Command, R_co
from octostore.core.limits import PAGE_DEFAULT
from octostore.server.http import Request
from octostore.server.principals import Principal
from octostore.server.services import Services
from octostore.wire import fields as f

CommandT = TypeVar("CommandT", bound=Command[Any])


class Call(msgspec.Struct):
    request: Request
    principal: Principal
    services: Services
    body: Any = None
    query: Any = None

    def timely(self, command: CommandT) -> CommandT:
        """`command`, which is not carried out any more once whoever asked has given up."""
        msgspec.structs.force_setattr(command, "until", self.request.until)
        return command

    async def execute(self, command: Command[R_co]) -> R_co:
        return await self.services.store.execute(self.timely(command))

    @property
    def job_id(self) -> str:
        """The job that the address names, if the token may use that name."""
        job_id = self.request.params["job_id"]
        self.principal.require_name(job_id)
        return job_id


class PrefixQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    prefix: f.Prefix | None = None


class PageQuery(PrefixQuery, kw_only=True, forbid_unknown_fields=True):
    limit: f.PageLimit = PAGE_DEFAULT
