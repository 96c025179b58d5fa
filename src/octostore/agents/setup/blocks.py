"""A marked block of our text at the end of someone else's file.

Its ending records what the text was like before: with a line break if the text had one, without if it had none.
"""

import re
from typing import Literal

import msgspec

VERSION = 2
"""The version of the text between the marks. Increase it whenever the text changes."""


def end_of_line_in(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


class Block(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    comment: Literal["markdown", "toml"]

    def text(self, end_of_line: str = "\n") -> str:
        if self.comment == "toml":
            # On the table's last line: programs that append tables would put them before a separate line.
            marked = (f"# octostore:begin v{VERSION}", *self.lines[:-1], f"{self.lines[-1]}  # octostore:end")
        else:
            marked = (f"<!-- octostore:begin v{VERSION} -->", *self.lines, "<!-- octostore:end -->")
        return end_of_line.join(marked)

    def find(self, text: str) -> re.Match[str] | None:
        """Of any version. A mark without its counterpart is not part of it."""
        before, behind = ("# ", "") if self.comment == "toml" else ("<!-- ", " -->")
        begin, end = rf"^{before}octostore:begin v\d+{behind}\r?$", rf"{before}octostore:end{behind}(?=\r?$)"
        pattern = rf"{begin}(?:(?!{begin}).)*?{end}"
        return re.search(pattern, text, re.DOTALL | re.MULTILINE)

    def put(self, text: str) -> str:
        """With the current block; at the end, if it is new."""
        found = self.find(text)
        if found:
            end_of_line = end_of_line_in(found.group())
            added = "".join(end_of_line + line for line in self._added(found.group()))
            return text[: found.start()] + self.text(end_of_line) + added + text[found.end() :]
        end_of_line = end_of_line_in(text)
        if text == "":
            return self.text()
        if text.endswith("\n"):
            return text + end_of_line + self.text(end_of_line) + end_of_line
        return text + end_of_line * 2 + self.text(end_of_line)

    def take(self, text: str) -> str:
        """Without the block, and the empty line that came with it."""
        found = self.find(text)
        if found is None:
            return text
        before, behind = text[: found.start()], text[found.end() :]
        end_of_line = end_of_line_in(found.group())
        added = self._added(found.group())
        if added:
            return before + end_of_line.join(added) + behind
        if not behind:
            return before.removesuffix(end_of_line * 2)
        rest = before.removesuffix(end_of_line)
        # If the empty line is gone, the line before ends with this line break.
        return (rest if rest.endswith("\n") else before) + behind.removeprefix(end_of_line)

    def _added(self, block: str) -> list[str]:
        """What someone else wrote between the marks. In an earlier version's block, that is unknown."""
        first, *inside = block.splitlines()
        if self.comment == "toml" or first != self.text().splitlines()[0]:
            return []
        return [line for line in inside[:-1] if line.strip() and line not in self.lines]

    def is_all(self, text: str) -> bool:
        """Whether that is what we write if there is no file."""
        found = self.find(text)
        if found is None or self._added(found.group()):
            return False
        return found.start() == 0 and text[found.end() :] in {"\n", "\r\n"}
