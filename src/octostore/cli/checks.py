"""The checks of `octostore doctor`."""

import os
import platform
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from octostore._version import __version__
from octostore.cli import exit_codes, words
from octostore.cli.failures import exit_code_of
from octostore.cli.next_steps import next_step
from octostore.cli.store_address import StoreAddress
from octostore.client.store import OctoStore
from octostore.core.errors import InvalidInput, NotAllowed, OctoStoreError, Unreachable
from octostore.core.replies import ProbeReply
from octostore.stores.opening import sqlite_path
from octostore.stores.permissions import check_file
from octostore.stores.sqlite import SQLITE_VERSION

SKEW_SECONDS = 2.0
"""Smaller clock differences are ignored, because the probe itself takes time."""
DISK_BYTES = 100 * 1_024 * 1_024
SHARED_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "virtiofs", "afs", "ceph"}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, and what to do about it."""

    name: str
    status: Literal["ok", "warning", "problem"] = "ok"
    finding: str
    advice: str = ""
    exit_code: int = exit_codes.SUCCESS


def run_checks(address: StoreAddress) -> Iterator[Check]:
    yield Check(name="version", finding=_versions())
    yield Check(name="store", finding=address.with_source)
    store: OctoStore | None = None
    try:
        store = address.open()
        yield from _check_store(store)
        if address.is_server:
            yield _check_token(store)
    except OctoStoreError as error:
        yield _problem(error, address)
    finally:
        if store is not None:
            store.close()
    if not address.is_server:
        path = sqlite_path(address.url)
        yield from [] if path is None else _check_file(Path(path))
    yield _check_supervision()
    yield _check_mcp()


def _versions() -> str:
    return f"octostore {__version__}, Python {platform.python_version()}, SQLite {SQLITE_VERSION}"


def _check_store(store: OctoStore) -> Iterator[Check]:
    began = time.monotonic()
    probe = store.probe()
    took = (time.monotonic() - began) * 1_000
    yield Check(name="write", finding=f"a durable write took {took:.0f} ms; the log is at seq {probe.seq:,}")
    with suppress(NotAllowed):  # needs a token that may read everything
        yield Check(name="id", finding=f"the store's id is {store.figures().store_id}")
    yield _check_clock(probe)
    if probe.version != __version__:
        yield Check(
            name="server",
            status="warning",
            finding=f"the server runs octostore {probe.version}; this client runs {__version__}",
            advice="calls that the older version does not know will fail; upgrade it",
        )


def _check_clock(probe: ProbeReply) -> Check:
    ahead = words.seconds_between(words.now(), probe.at)
    if abs(ahead) <= SKEW_SECONDS:
        return Check(name="clock", finding="the clock agrees with the store's")
    how = f"{words.duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"
    return Check(
        name="clock",
        status="warning",
        finding=f"the store's clock is {how} this machine's",
        advice="leases are not affected, because only the store's clock counts, but ages shown here are wrong; "
        "synchronize the clocks, for example with NTP",
    )


def _check_token(store: OctoStore) -> Check:
    me = store.whoami()
    within = f" on jobs named {me.prefix}…" if me.prefix else ""
    until = "" if me.expires_at is None else f", until {words.clock(me.expires_at)} UTC"
    return Check(name="token", finding=f"{me.name}, with {', '.join(sorted(me.scopes))}{within}{until}")


def _problem(error: OctoStoreError, address: StoreAddress) -> Check:
    finding = str(error)
    if isinstance(error, NotAllowed) or (isinstance(error, InvalidInput) and "token" in error.field.lower()):
        name, advice = (
            "token",
            "put a valid token in OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE; an operator can create one for you",
        )
    elif isinstance(error, Unreachable):
        name, advice = "store", next_step(error, address)
    elif isinstance(error, InvalidInput) and error.field == "permissions":
        name, advice = "permissions", "find out who else can use this machine: they may have changed the store"
        finding = finding.removeprefix(f"{name} ")
    else:
        name, advice = "url", "correct the store's URL, shown above"
    return Check(name=name, status="problem", finding=finding, advice=advice, exit_code=exit_code_of(error))


# The embedded file


def _check_file(path: Path) -> Iterator[Check]:
    if not path.exists():
        return
    with suppress(InvalidInput):  # already reported
        check_file(str(path))
        yield _check_permissions(path)
    free = shutil.disk_usage(path.parent).free
    if free < DISK_BYTES:
        yield Check(
            name="disk",
            status="warning",
            finding=f"{free / 1_048_576:.0f} MiB free in {path.parent}",
            advice="free some disk space: when the disk is full, nothing can be claimed (but nothing is lost)",
        )
    else:
        yield Check(name="disk", finding=f"{free / 1_073_741_824:,.0f} GiB free")
    kind = _file_system(path)
    if kind in SHARED_FILE_SYSTEMS:
        yield Check(
            name="filesystem",
            status="problem",
            finding=f"{path} is on {kind}, where SQLite's locks are unreliable",
            advice="keep the file on a local disk, and share it with `octostore serve`",
            exit_code=exit_codes.BAD_INPUT,
        )


def _check_permissions(path: Path) -> Check:
    readable = stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH
    # A user who cannot enter the folder cannot reach the file.
    is_open = path.parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) and path.stat().st_mode & readable
    if is_open:
        return Check(
            name="permissions",
            status="warning",
            finding=f"other users of this machine can access {path}, and with it every lease",
            advice=f"if that is not intended, run: chmod 600 {path}",
        )
    return Check(name="permissions", finding="only you can access the file")


def _file_system(path: Path) -> str:
    """The type of the file system, from the longest matching mount point; empty if unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    real = path.resolve()
    leading = [(point, kind) for _device, point, kind, *_ in mounts if real.is_relative_to(point)]
    return max(leading, key=lambda mount: len(mount[0]), default=("", ""))[1]


# `octostore run`


def _check_supervision() -> Check:
    if os.uname().sysname == "Linux" and Path("/proc/self/stat").exists():
        return Check(name="run", finding="`octostore run` can stop everything a command has started")
    return Check(
        name="run",
        status="warning",
        finding="on this system, `octostore run` cannot find processes that leave their group, like daemons",
        advice="do not run commands that start daemons; Linux does not have this limitation",
    )


# `octostore mcp`


def _check_mcp() -> Check:
    if find_spec("aiohttp") is None:
        from octostore.extras import how_to_add  # noqa: PLC0415

        finding = "can serve a file or a database to agents; for a server's URL, it needs aiohttp"
        return Check(name="mcp", finding=finding, advice=f"run: {how_to_add('mcp')}")
    return Check(name="mcp", finding="can serve agents")
