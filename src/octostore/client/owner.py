"""Who we are, when the caller does not say."""

import os

OWNER_VARIABLE = "OCTOSTORE_OWNER"


def _host() -> str | None:
    """The system accepts any bytes as a name, and a claim does not."""
    name = os.uname().nodename
    return name if name and name.isprintable() else None


HOST = _host()


def person() -> str:
    """Who types commands: the process that does is over before anybody reads its number."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or f"user {os.getuid()}"
    return os.environ.get(OWNER_VARIABLE) or f"{user}@{os.uname().nodename}"


def default_owner() -> str:
    """For people to read. It authorises nothing, so two workers with the same one are still two."""
    return os.environ.get(OWNER_VARIABLE) or f"{os.uname().nodename}:{os.getpid()}"
