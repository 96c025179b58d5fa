"""What to do if the store cannot be reached, by reason. Every command prints it, and so does `doctor`."""

from octostore.cli.store_address import StoreAddress
from octostore.core.errors import Unreachable

_STEPS = {
    "busy": "try again; if this persists, find the process that keeps the store busy",
    "certificate": "set SSL_CERT_FILE to the file with the CA's certificate, or correct the URL",
    "closed": "try again; the process was shutting down",
    "corrupt": "stop everything that uses the store, then restore the last backup with `octostore restore --replace`",
    "denied": "check the user in the URL and the password (~/.pgpass or PGPASSWORD)",
    "disk_full": "free some disk space (`df -h`); nothing is lost, and nothing needs a restart",
    "in_use": "stop the server and the workers that use the store (`fuser` lists them), and restore again",
    "io": "check that the folder exists and is writable, and look for disk errors (`dmesg`)",
    "late": "try again; the store was too busy to answer in time",
    "moved": "find the files and put them back where they were, or restore a backup with `octostore restore`",
    "newer_schema": "use the version of octostore that wrote it, or a newer one",
    "no_server": "start one with `octostore serve` and try again, or name one on another machine with `--url`",
    "no_store": "if this is the right store, claim or enqueue a job to create it; else set `--url` or OCTOSTORE_URL",
    "not_a_database": "check the path or database name; set another with `--url` or OCTOSTORE_URL",
    "other_user": "find out whose process it is, or start your own server at another address",
    "read_only": "check its permissions, and that it is not a standby",
    "restored_behind": "run `octostore restore --forward` on the machine that has the store",
    "server": "correct the URL: its host, port and path must be the server's",
}
_STEPS_ELSEWHERE = {
    "network": "on the server's machine, check that its database is running and reachable (`pg_isready`), and that it "
    "is not a standby",
    "server": "check the server's log, and that of any proxy in front of it",
}
"""If the server responded, and the problem is behind it."""


def next_step(error: Unreachable, address: StoreAddress) -> str:
    if address.is_server and error.reason in _STEPS_ELSEWHERE:
        from octostore.client.http.responses import has_answered  # noqa: PLC0415  # the error comes from there

        if has_answered(error):
            return _STEPS_ELSEWHERE[error.reason]
    if error.reason != "network":
        return _STEPS.get(error.reason, "run `octostore doctor` to find out what is wrong")
    if address.is_server:
        return "check that the server is running (`octostore serve` starts one) and that the URL is right"
    return "check that the database is running and reachable from here (`pg_isready`), and that it is not a standby"
