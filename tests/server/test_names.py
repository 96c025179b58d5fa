"""Job names survive HTTP unchanged, in paths, queries, bodies and streams."""

from collections.abc import Iterator
from itertools import count
from string import ascii_letters, digits

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import octostore
from tests.support.server import ServerProcess

ALPHABET = ascii_letters + digits + "-_.#:@+=" + "é任"
COMPONENTS = st.text(ALPHABET, min_size=1, max_size=12).filter(lambda text: text not in {".", ".."})
NAMES = st.lists(COMPONENTS, min_size=1, max_size=3).map("/".join)
_numbers = count(1)


@pytest.fixture(scope="module")
def store(server: ServerProcess) -> Iterator[octostore.OctoStore]:
    with octostore.connect(server.url, token=server.token) as store:
        yield store


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
@example(name="requeue")
@example(name="acme/shop#12")
@example(name="#12")
@example(name="user@host:22/a+b=c")
@example(name="+")
@example(name="=2F")
def test_any_valid_name_round_trips(store: octostore.OctoStore, name: str) -> None:
    prefix = f"{next(_numbers)}@"
    job_id = prefix + name
    claim = store.claim_job(job_id, "ann")
    assert (claim.status, claim.job_id) == ("claimed", job_id)
    assert claim.lease_id is not None
    assert store.heartbeat_job(job_id, claim.lease_id).job_id == job_id
    assert store.checkpoint_job(job_id, claim.lease_id, 1).job_id == job_id
    assert store.get_job(job_id).job_id == job_id
    assert [job.job_id for job in store.list_claimed_jobs(prefix)] == [job_id]
    assert [job.job_id for job in store.list_jobs(job_id).jobs] == [job_id]
    assert store.list_jobs(prefix, cursor=job_id).jobs == []
    assert [(event.type, event.job_id) for event in store.events(job_id=job_id)] == [("claimed", job_id)]
    assert [event.job_id for event in store.events(prefix=job_id)] == [job_id]
    assert next(store.events(job_id=job_id, follow=True)).job_id == job_id
    (again,) = store.batch([{"command": "claim_job", "job_id": job_id, "owner": "bob"}])
    assert (again.status, again.job_id) == ("held", job_id)
    assert store.request_stop(job_id).job_id == job_id
    assert store.cancel(job_id).status == "dead"
    assert store.requeue(job_id).status == "free"


def test_a_token_may_be_limited_to_a_prefix_with_special_characters(
    server: ServerProcess, store: octostore.OctoStore
) -> None:
    token = server.new_token("ci", "claim", "read", prefix="acme/shop#")
    store.claim_job("acme/shop:1", "ann")
    with octostore.connect(server.url, token=token) as limited:
        assert limited.claim_job("acme/shop#1", "ann").status == "claimed"
        assert [job.job_id for job in limited.list_claimed_jobs()] == ["acme/shop#1"]
        generated = server.post("/jobs", {"kind": "build"}, token=token).json["job_id"]
        assert generated.startswith("acme/shop#job-")
        with pytest.raises(octostore.NotAllowed):
            limited.claim_job("acme/shop:2", "ann")
        with pytest.raises(octostore.NotAllowed):
            limited.get_job("acme/shop")


def test_a_plus_in_a_query_is_a_space(server: ServerProcess) -> None:
    server.post("/jobs/a+b/claim", {"owner": "ann"})
    assert server.get("/jobs?prefix=a%2Bb").json["jobs"][0]["job_id"] == "a+b"
    refused = server.get("/jobs?prefix=a+b")
    assert (refused.status, refused.json["code"]) == (400, "invalid_input")


@pytest.mark.parametrize("address", ["/jobs/acme#12", "/jobs?prefix=acme#12"])
def test_a_raw_hash_is_refused_and_not_cut_off(server: ServerProcess, address: str) -> None:
    """Cut off, the request would affect the job `acme`."""
    server.post("/jobs/acme/claim", {"owner": "ann"})
    refused = server.get(address)
    assert (refused.status, refused.json["code"]) == (400, "malformed_request")
    assert "%23" in refused.json["details"]


@pytest.mark.parametrize("name", ["requeue", "discard"])
def test_a_job_may_have_the_name_of_a_route(server: ServerProcess, store: octostore.OctoStore, name: str) -> None:
    """Methods that the route does not use refer to the job."""
    assert store.claim_job(name, "ann").status == "claimed"
    owner = store.get_job_owner(name)
    assert owner is not None
    assert owner.owner == "ann"
    store.cancel(name, reason="not needed")
    assert store.requeue(name).status == "free"
    assert server.request("HEAD", f"/jobs/{name}").status == 200
    refused = server.request("DELETE", f"/jobs/{name}")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")
