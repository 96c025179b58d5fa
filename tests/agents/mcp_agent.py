"""An agent that has only the tools of `octostore mcp`.

`python -m tests.agents.mcp_agent NAME DIARIES TTL MAX_SILENCE`. It never heartbeats and never sees a lease.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.agents.diary import IDLE_SECONDS, QUEUE, STEPS, Diary, step_in, thinking_seconds

LOST = {"lease_lost", "not_held"}


class McpAgent:
    def __init__(self, client: Client, diary: Diary, ttl: float) -> None:
        self._client = client
        self._diary = diary
        self._ttl = ttl

    async def live(self) -> None:
        while True:
            reply = await self._call("claim_next_job", queue=QUEUE, ttl=self._ttl)
            if reply.get("status") == "claimed":
                await self._work(reply)
            elif reply.get("status") != "empty":
                raise RuntimeError(f"claim_next_job returned {reply}")
            elif reply["all_done"]:
                self._diary.note("over")
                return
            else:
                await asyncio.sleep(IDLE_SECONDS)

    async def _work(self, claim: dict[str, Any]) -> None:
        job_id, token = claim["job_id"], claim["fencing_token"]
        reached = step_in(claim.get("checkpoint"))
        self._diary.note("claimed", job_id, token, reached)
        for step in range(reached + 1, STEPS + 1):
            await asyncio.sleep(thinking_seconds())
            if not await self._did("checkpoint", job_id=job_id, data={"step": step}):
                self._diary.note("lost", job_id, token)
                return
            self._diary.note("saved", job_id, token, step)
        await asyncio.sleep(thinking_seconds())
        is_done = await self._did("release_job", job_id=job_id, outcome="done")
        self._diary.note("done" if is_done else "lost", job_id, token)

    async def _did(self, tool: str, **arguments: Any) -> bool:
        """Whether the claim was still ours."""
        reply = await self._call(tool, **arguments)
        code = reply.get("code")
        if code is not None and code not in LOST:
            raise RuntimeError(f"{tool} returned {reply}")
        return code is None

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self._diary.note("asked", command=tool)
        result = await self._client.call_tool(tool, arguments)
        (document, *_) = [part.text for part in result.content if part.type == "text"]
        reply: dict[str, Any] = json.loads(document)
        return reply


async def main(name: str, diaries: str, ttl: str, max_silence: str) -> None:
    parameters = StdioServerParameters(
        command="octostore", args=["mcp", "--max-silence", max_silence], env=dict(os.environ)
    )
    async with Client(stdio_client(parameters)) as client:
        await McpAgent(client, Diary(Path(diaries), name), float(ttl)).live()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
