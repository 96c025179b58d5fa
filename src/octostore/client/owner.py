"""The owner's name, if the caller does not choose one."""

import os

OWNER_VARIABLE = "OCTOSTORE_OWNER"


def _host() -> str | None:
    """The system accepts any bytes as a host name; a claim does not."""
    name = os.uname().nodename
    return name if name and name.isprintable() else None


HOST = _host()


def person() -> str:
    """For commands that people type: their process id would mean nothing to a reader."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or _user_name()
    return os.environ.get(OWNER_VARIABLE) or f"{user}@{os.uname().nodename}"


def _user_name() -> str:
    import pwd  # noqa: PLC0415  # only where the environment has no name, as in containers

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def default_owner() -> str:
    """For people to read. It authorises nothing, so two workers with the same name are still two."""
    return os.environ.get(OWNER_VARIABLE) or f"{os.uname().nodename}:{os.getpid()}"
