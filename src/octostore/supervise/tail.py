"""What a command writes, passed on as it comes, with its last bytes kept."""

import os
import select
import threading
from contextlib import suppress

CHUNK_BYTES = 65_536


class Tail:
    """Copies to `target` (None: nowhere) what is written to `descriptor`, until everybody has closed that."""

    def __init__(self, target: int | None, keep: int) -> None:
        self._source, self.descriptor = os.pipe()
        self._target = target
        self._keep = keep
        self._kept = b""
        self.size = 0
        """How many bytes there were in all."""
        self._thread = threading.Thread(target=self._copy, name="octostore-tail", daemon=True)
        self._thread.start()

    def close_writing(self) -> None:
        """Once the command has its own: from now on it is the only one who writes."""
        os.close(self.descriptor)

    def result(self) -> bytes:
        """The last bytes of all, once there are no more to come."""
        self._thread.join()
        return self._kept

    def _copy(self) -> None:
        try:
            while chunk := os.read(self._source, CHUNK_BYTES):
                self.size += len(chunk)
                self._kept = (self._kept + chunk)[-self._keep :]
                if self._target is not None:
                    self._write(self._target, chunk)
        except OSError:
            pass  # nobody reads it any more; the command learns that from its own next write
        finally:
            with suppress(OSError):
                os.close(self._source)

    @staticmethod
    def _write(target: int, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            try:
                rest = rest[os.write(target, rest) :]
            except BlockingIOError:  # somebody else who writes there wants it so
                select.select([], [target], [])
