"""Who we are, when the caller does not say."""

import os

OWNER_VARIABLE = "OCTOSTORE_OWNER"


def default_owner() -> str:
    """For people to read. It authorises nothing, so two workers with the same one are still two."""
    return os.environ.get(OWNER_VARIABLE) or f"{os.uname().nodename}:{os.getpid()}"
