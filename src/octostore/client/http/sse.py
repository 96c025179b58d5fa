"""Server-sent events, the part of them that our server uses: `id`, `event` and `data` lines, and comments."""

from collections.abc import Iterator


class FrameReader:
    """Feed it what arrives: it yields the data of each complete event, and `b""` for a keep-alive."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for ended in lines:
            line = ended.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif line.startswith(b":"):
                yield b""
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data.clear()
