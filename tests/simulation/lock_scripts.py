"""What lock clients do: plain HTTP, with one principal for all of them and a `holder` for each."""

from datetime import datetime
from typing import Any

import msgspec

from octostore.client.authority import Authority
from octostore.client.http.port import HttpPort
from octostore.client.http.retry_budget import RESPONSE_SECONDS
from octostore.core.errors import LeaseLost
from octostore.stores.base import TryAgain
from octostore.stores.clock import boottime
from tests.simulation.checks import Belief
from tests.simulation.client import Client
from tests.simulation.scheduler import BOOTED_AT
from tests.simulation.scripts import TTLS

NAMES = ("database", "cache")
TIMES = 4


def use_a_lock(c: Client) -> None:
    """Acquire, renew by acquiring again, and release. Repeat every call that gets no response."""
    name, ttl, authority = c.pick(NAMES), c.pick(TTLS), Authority()
    belief = _acquire(c, name, ttl, authority, None)
    if belief is None:
        return
    try:
        for _ in range(c.chance.randint(0, 3)):
            c.sleep(min(authority.remaining() / 2, c.chance.uniform(0.2, 12)))
            if authority.remaining() <= 0 or _acquire(c, name, ttl, authority, belief) is None:
                return
    finally:
        belief.drop()  # the next round may get the same lease again
    _post(c, name, "release", {"lease_id": belief.lease_id})


def _acquire(c: Client, name: str, ttl: float, authority: Authority, known: Belief | None) -> Belief | None:
    asked_at = boottime()
    status, reply = _post(c, name, "acquire", {"ttl_seconds": ttl, "holder": c.name})
    if status != 200 or reply["status"] != "acquired":
        return None
    lease_id, token = reply["lease_id"], reply["fencing_token"]
    c.say(f"gets: {name} acquired, token {token}")
    if known is not None and known.lease_id != lease_id:
        return None  # the old lease was lost; let the new one expire
    authority.renew(asked_at, round(ttl * 1_000))
    belief = known or Belief(name, c.name, c.process, lease_id=lease_id, token=token, remaining=authority.remaining)
    c.checks.received_lock(belief, msgspec.convert(reply["expires_at"], type=datetime), asked_at - BOOTED_AT)
    return belief


def _post(c: Client, name: str, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
    port: Any = c.store._port
    assert isinstance(port, HttpPort)
    path, encoded = f"/locks/{name}/{verb}", msgspec.json.encode(body)
    for _ in range(TIMES):
        try:
            with c.doing(f"{verb} {name}"):
                response, data = port._connections.call("POST", path, encoded, RESPONSE_SECONDS)
            if response.status < 500:
                return response.status, msgspec.json.decode(data)
        except TryAgain:
            pass
        c.sleep(c.chance.uniform(0.1, 2))
    raise LeaseLost(name, "no server responds")
