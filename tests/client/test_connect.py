"""One URL selects the store."""

import stat
from pathlib import Path

import pytest

import octostore
from octostore import InvalidInput, Unreachable


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("OCTOSTORE_URL", "OCTOSTORE_HOME", "OCTOSTORE_OWNER", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("environment", "url", "file"),
    [
        ({}, None, ".local/share/octostore/octostore.db"),
        ({"XDG_DATA_HOME": "data"}, None, "data/octostore/octostore.db"),
        ({"OCTOSTORE_HOME": "home", "XDG_DATA_HOME": "data"}, None, "home/octostore.db"),
        ({"OCTOSTORE_URL": "sqlite:///jobs.db", "OCTOSTORE_HOME": "home"}, None, "jobs.db"),
        ({"OCTOSTORE_URL": "sqlite:///jobs.db"}, "sqlite:///with%20space.db", "with space.db"),
    ],
)
def test_where_the_file_is(
    environment: dict[str, str], url: str | None, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with octostore.connect(url) as store:
        store.claim_job("job")
    path = tmp_path / file
    assert path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "lease ids are secrets"


def test_an_absolute_path_and_a_second_connection(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with octostore.connect(url) as one, octostore.connect(url) as two:
        one.claim_job("job", owner="one")
        assert two.claim_job("job").owner == "one"


def test_a_relative_path_does_not_follow_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with octostore.connect("sqlite:///jobs.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.claim_job("job")
        assert store.get_job("job").status == "claimed"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/file.db",
        "sqlite:///a.db?mode=ro",
        "sqlite:///:memory:",
        "jobs.db",
        "sqlite:/one.db",
        "",
    ],
)
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        octostore.connect(url)
    assert caught.value.field == "url"


def test_a_path_is_not_a_url() -> None:
    with pytest.raises(InvalidInput, match="must be text"):
        octostore.connect(Path("jobs.db"))  # type: ignore[arg-type]


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        octostore.connect("oracle://scott:tiger@host/db")
    assert "tiger" not in str(caught.value)


def test_the_owner_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with octostore.connect("memory:") as store:
        assert ":" in (store.claim_job("one").owner or "")
        monkeypatch.setenv("OCTOSTORE_OWNER", "agent-7")
        assert store.claim_job("two").owner == "agent-7"
        assert store.claim_job("three", owner="me").owner == "me"


def test_arguments_that_would_fail_later_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput):
        octostore.connect("memory:", retry={"base_ms": 5})  # type: ignore[arg-type]

    async def coroutine(_claim: object) -> None: ...

    with octostore.connect("memory:") as store:
        for handler in ("not a function", coroutine):
            with pytest.raises(InvalidInput):
                store.work("queue", handler)  # type: ignore[arg-type]


def test_a_closed_store_raises_unreachable() -> None:
    store = octostore.connect("memory:")
    store.close()
    store.close()
    with pytest.raises(Unreachable) as caught:
        store.claim_job("job")
    assert caught.value.reason == "closed"
