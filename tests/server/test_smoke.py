from tests.support.server import ServerProcess


def test_a_claim_through_the_server(server: ServerProcess) -> None:
    first = server.post("/jobs/smoke/claim", {"owner": "ann"})
    second = server.post("/jobs/smoke/claim", {"owner": "bob"})
    assert (first.status, first.json["status"]) == (200, "claimed")
    assert (second.json["status"], second.json["owner"]) == ("held", "ann")
