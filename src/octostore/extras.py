"""What to type to add an extra.

OctoStore may come from a clone, a repository or a wheel. Installers record which, so the command can be complete.
"""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import msgspec


class _Direct(msgspec.Struct):
    """`direct_url.json` (PEP 610), which installers write unless the package came from an index."""

    url: str
    dir_info: dict[str, bool] = {}
    vcs_info: dict[str, str] = {}


def how_to_add(extra: str) -> str:
    """Return the command that adds `extra` to this installation."""
    try:
        recorded = distribution("octostore").read_text("direct_url.json")
    except PackageNotFoundError:  # imported from a source tree that was never installed
        recorded = None
    if recorded is None:
        what = shlex.quote(f"PATH-OR-URL[{extra}]")
        return f"{_installer()} {what}, where PATH-OR-URL is what you installed OctoStore from"
    return f"{_installer()} {requirement(recorded, extra)}"


def _installer() -> str:
    """An environment that uv made has no pip of its own."""
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


def requirement(recorded: str, extra: str) -> str:
    """Return the same requirement as recorded in a `direct_url.json`, with `extra`, as arguments of an installer."""
    direct = msgspec.json.decode(recorded, type=_Direct)
    if direct.vcs_info:
        revision = direct.vcs_info.get("requested_revision") or direct.vcs_info["commit_id"]
        return shlex.quote(f"octostore[{extra}] @ {direct.vcs_info['vcs']}+{_without_secrets(direct.url)}@{revision}")
    address = urlsplit(direct.url)
    if address.scheme != "file":
        return shlex.quote(f"octostore[{extra}] @ {_without_secrets(direct.url)}")
    path = shlex.quote(f"{unquote(address.path)}[{extra}]")
    return f"-e {path}" if direct.dir_info.get("editable") else path


def _without_secrets(url: str) -> str:
    """Installers should not record a password, but some do; and a query may be a signature."""
    address = urlsplit(url)
    user, at, host = address.netloc.rpartition("@")
    return address._replace(netloc=f"{user}{at}{host}" if user == "git" else host, query="").geturl()
