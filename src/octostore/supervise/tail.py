"""Copy a command's output as it arrives, and keep the last bytes."""

import os
import select
import threading
from contextlib import suppress

CHUNK_BYTES = 65_536


class Tail:
    """Copies what is written to `descriptor` to `target` (None discards it), until every writer has closed it."""

    def __init__(self, target: int | None, keep: int) -> None:
        self._source, self.descriptor = os.pipe()
        self._target = target
        self._keep = keep
        self._kept = b""
        self.size = 0
        """Bytes read so far."""
        self._thread = threading.Thread(target=self._copy, name="octostore-tail", daemon=True)
        self._thread.start()

    def close_writing(self) -> None:
        """Close our copy once the command has its own, so that we see the end of its output."""
        os.close(self.descriptor)

    def result(self) -> bytes:
        """Wait for the end of the output, and return its last bytes."""
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
            pass  # the reader is gone; the command finds out at its next write
        finally:
            with suppress(OSError):
                os.close(self._source)

    @staticmethod
    def _write(target: int, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            try:
                rest = rest[os.write(target, rest) :]
            except BlockingIOError:  # another process made it non-blocking
                select.select([], [target], [])
            except ConnectionError:
                raise
            except OSError:
                return  # a full disk, for example: this part is lost, but few commands end because of that
