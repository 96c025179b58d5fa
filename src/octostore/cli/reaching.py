"""What to do about a store that cannot be reached, by the reason why. Every command says it, and so does `doctor`."""

from octostore.cli.place import Place
from octostore.core.errors import Unreachable

_STEPS = {
    "busy": "try again; if this persists, find the process that keeps the store busy",
    "certificate": "set SSL_CERT_FILE to the CA certificate that signed it, or correct the URL",
    "closed": "try again; the process was shutting down",
    "corrupt": "stop everything that uses the store, then restore the last backup with `octostore restore --replace`",
    "denied": "check the user in the URL and the password (~/.pgpass or PGPASSWORD)",
    "disk_full": "free some disk space (`df -h`); nothing is lost, and nothing needs a restart",
    "in_use": "stop the server and the workers that use it (`fuser` names them), and restore again",
    "io": "check that the folder exists and is writable, and look for disk errors (`dmesg`)",
    "late": "try again; the store was too busy to answer in time",
    "moved": "find the files and put them back together, or restore a backup with `octostore restore`",
    "newer_schema": "use the version of octostore that wrote it, or a newer one",
    "no_server": "start one with `octostore serve`, then run this again; `--url` names one elsewhere",
    "no_store": "check that this is the right place; `--url` or OCTOSTORE_URL names another",
    "not_a_database": "check that this is the right place; `--url` or OCTOSTORE_URL names another",
    "other_user": "find out whose process that is, or start your own server at another address",
    "read_only": "check its permissions, and that it is not a standby",
    "restored_behind": "run `octostore restore --forward` on the machine that has the store",
    "server": "check the server's log",
}


def next_step(error: Unreachable, place: Place) -> str:
    if error.reason != "network":
        return _STEPS.get(error.reason, "run `octostore doctor` to find out what is wrong")
    if place.is_server:
        return "check that the server is running (`octostore serve` starts one) and that the URL is right"
    return "check that the database is running and reachable from here (`pg_isready`)"
