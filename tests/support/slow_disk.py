"""A server whose disk stalls while a file `stall` is in its home: no sync returns."""

import sys
import time
from pathlib import Path

import apsw

from octostore.cli.main import main
from octostore.stores.opening import data_folder


class _File(apsw.VFSFile):
    def xSync(self, flags: int) -> None:  # noqa: N802
        stall = Path(data_folder()) / "stall"
        while stall.exists():
            Path(f"{stall}ed").touch()
            time.sleep(0.001)
        super().xSync(flags)


class _Disk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("slow", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File("unix", name or "", flags)


if __name__ == "__main__":
    disk = _Disk()
    sys.exit(main(sys.argv[1:]))
