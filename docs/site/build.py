"""The documentation site, in build/site: `python -m docs.site.build`, or `make docs`."""

import shutil
import subprocess
import sys
from pathlib import Path

from docs.site.check import problems_of
from docs.site.pages import ROOT, lay_out

CONFIG = ROOT / "zensical.toml"
BUILD = ROOT / "build"


def build(folder: Path) -> list[str]:
    """Build `folder`/site; returns what is wrong with it."""
    lay_out(folder / "pages")
    shutil.copy(CONFIG, folder)
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run(  # noqa: S603
        [zensical, "build", "--clean", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    return [built.stdout + built.stderr] if built.returncode else list(problems_of(folder / "site"))


if __name__ == "__main__":
    problems = build(BUILD)
    sys.stdout.writelines(f"{problem}\n" for problem in problems or [f"{BUILD / 'site' / 'index.html'}"])
    sys.exit(bool(problems))
