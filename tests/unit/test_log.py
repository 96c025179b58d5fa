"""What strangers can cause is logged at most once a minute for each kind."""

import pytest

from octostore.server.log import MINUTE_SECONDS, Seldom


def test_the_first_of_each_kind_in_each_minute_and_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = [5.0]
    seldom = Seldom(lambda: now[0])
    for address in ("a", "b", "c"):
        seldom.warning("refused", "refused %s", address)
    seldom.warning("gone", "gone: 100%")
    now[0] += MINUTE_SECONDS - 0.1
    seldom.warning("refused", "refused %s", "d")
    now[0] += 0.1
    seldom.warning("refused", "refused %s", "e")
    now[0] += MINUTE_SECONDS
    seldom.warning("refused", "refused %s", "f")
    assert caplog.messages == [
        "refused a",
        "gone: 100%",
        "refused e (3 more since the last line of this kind)",
        "refused f",
    ]
