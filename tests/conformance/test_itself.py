"""What a store says about itself and about the caller."""

from tests.conformance.conftest import System


def test_a_probe_returns_the_stores_time_and_changes_nothing(system: System) -> None:
    claim = system.store.claim_job("job", owner="me")
    probe = system.store.probe()
    assert (probe.seq, probe.at) == (1, claim.claimed_at)
    assert len(list(system.store.events())) == 1


def test_whoami_shows_that_the_caller_may_do_everything(system: System) -> None:
    me = system.store.whoami()
    assert "admin" in me.scopes
    assert (me.prefix, me.expires_at) == ("", None)
    claim = system.store.claim_job("job", owner="me")
    assert claim.principal == me.name
