"""What to do about a store that cannot be reached, by the reason why. Every command says it, and so does `doctor`."""

from octostore.cli.place import Place
from octostore.core.errors import Unreachable

_STEPS = {
    "busy": "try again; if it stays like this, find the process that keeps the store busy",
    "certificate": "set SSL_CERT_FILE to the certificate of the authority that signed it, or correct the URL",
    "closed": "try again; the process was shutting down",
    "corrupt": "stop everything that uses the store, and `octostore restore --replace` the last backup",
    "denied": "check the user in the URL, and its password (~/.pgpass or PGPASSWORD)",
    "disk_full": "make room on its disk (`df -h`); nothing is lost, and nothing needs to be restarted",
    "in_use": "stop the server and the workers that use it (`fuser` names them), and restore again",
    "io": "check that the folder exists and can be written to, and look for errors of its disk (`dmesg`)",
    "late": "try again; it was too busy to answer in time",
    "moved": "find the files and put them back together, or restore a backup with `octostore restore`",
    "newer_schema": "use the version of octostore that wrote it, or a newer one",
    "no_store": "check that this is the right place; `--url` or OCTOSTORE_URL names another",
    "not_a_database": "check that this is the right place; `--url` or OCTOSTORE_URL names another",
    "other_user": "find out whose process that is, or start your own server at another address",
    "read_only": "check who may write to it, and that it is no standby",
    "restored_behind": "run `octostore restore --forward` where the store is",
    "server": "see what the server says about it in its log",
}


def next_step(error: Unreachable, place: Place) -> str:
    if error.reason != "network":
        return _STEPS.get(error.reason, "`octostore doctor` looks for what is wrong")
    if place.is_server:
        return "see whether the server runs (`octostore serve` starts one), and whether that URL is right"
    return "see whether the database runs (`pg_isready`), and whether it can be reached from here"
