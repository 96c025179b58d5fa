"""Project URLs for the packages, taken from `OCTOSTORE_REPOSITORY_URL` when they are built.

The release workflow sets it to its own repository, so a fork's packages link to the fork. README.md gets absolute
links: relative ones would lead nowhere on a package index. Without the variable, packages have no URLs.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r'(?<==")(?=docs/)')
RELATIVE_LINK = re.compile(r"(?<=\]\()(?!https?:|#)")


class ProjectAddress(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("OCTOSTORE_REPOSITORY_URL", "").rstrip("/")
        if repository:
            tag = f"v{metadata['version']}"
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/blob/{tag}/docs/index.md",
                "Source": f"{repository}/tree/{tag}",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
            readme = PICTURE.sub(f"{repository}/raw/{tag}/", readme)
            readme = RELATIVE_LINK.sub(f"{repository}/blob/{tag}/", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
