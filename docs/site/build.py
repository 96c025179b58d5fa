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
    if built.returncode:
        return [built.stdout + built.stderr]
    _add_markdown(folder / "pages", folder / "site")
    return list(problems_of(folder / "site"))


def _add_markdown(pages: Path, site: Path) -> None:
    """The sources beside the pages, to which llms.txt leads, and all of them in one file."""
    paths = sorted(pages.rglob("*.md"))
    for path in paths:
        shutil.copy(path, site / path.relative_to(pages))
    kept = (path for path in paths if "decisions" not in path.parts)
    (site / "llms-full.txt").write_text("\n".join(path.read_text(encoding="utf-8") for path in kept), encoding="utf-8")


if __name__ == "__main__":
    problems = build(BUILD)
    sys.stdout.writelines(f"{problem}\n" for problem in problems or [f"{BUILD / 'site' / 'index.html'}"])
    sys.exit(bool(problems))
