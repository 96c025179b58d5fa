"""Header lines that were parsed before: a client sends the same ones with nearly every request."""

import re
from typing import NamedTuple

from octostore.server.http import Request, RequestHeaders

MAX_HEADS = 1_024
MAX_HEAD_BYTES = 1_024
LINE_END = b"\r\n"
HEAD_END = b"\r\n\r\n"
_PLAIN_LINE = re.compile(rb"(GET|POST|PUT|DELETE) ((?:/[\w.~%:@+=-]+)+) HTTP/1\.1")
"""A request line that can be read in only one way. All others are left to the parser."""
_LEFT_TO_PARSER = {b"expect", b"transfer-encoding"}
_NEW_EACH_TIME = {b"idempotency-key", b"traceparent", b"tracestate", b"x-request-id"}


class Head(NamedTuple):
    headers: RequestHeaders
    body_bytes: int


class WholeRequest(NamedTuple):
    method: str
    path: str
    headers: RequestHeaders
    body: bytes


class KnownHeads:
    """Reads most requests without the parser, which calls back for every header.

    A head is known byte for byte, from the end of the request line to the empty line, and only if the parser has
    accepted it before. Most clients need a few: one for each length of a body.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = min(max_bytes, MAX_HEAD_BYTES)
        self._heads: dict[bytes, Head] = {}

    def read(self, data: bytes) -> WholeRequest | None:
        """The request, if `data` is exactly one with a known head; None if the parser must decide."""
        lines_at, body_at = _parts(data)
        head = self._heads.get(data[lines_at:body_at])
        if head is None or len(data) - body_at != head.body_bytes or body_at > self._max_bytes:
            return None
        line = _PLAIN_LINE.fullmatch(data, 0, lines_at)
        if line is None:
            return None
        return WholeRequest(line[1].decode(), line[2].decode(), head.headers, data[body_at:])

    def remember(self, data: bytes, request: Request, fields: int) -> None:
        """Remember the head of `request`, in which the parser found this many fields, if `data` is all of it.

        Each field must be one line, and each line must end in CRLF. The parser refuses everything else today; if it did
        not, we might see another end of the head than it does.
        """
        lines_at, body_at = _parts(data)
        lines, body_bytes = data[lines_at:body_at], len(data) - body_at
        if (
            body_at <= self._max_bytes
            and request.is_received
            and request.received_bytes == body_bytes
            and request.keeps_alive
            and _LEFT_TO_PARSER.isdisjoint(request.headers)
            and _NEW_EACH_TIME.isdisjoint(request.headers)
            and lines.count(LINE_END) == lines.count(b"\n") == lines.count(b"\r") == fields + 2
            and _PLAIN_LINE.fullmatch(data, 0, lines_at)
        ):
            if len(self._heads) >= MAX_HEADS:
                del self._heads[next(iter(self._heads))]  # the oldest
            self._heads[lines] = Head(request.headers, body_bytes)


def _parts(data: bytes) -> tuple[int, int]:
    """Where the header lines begin, with the end of the line before them, and where the body does."""
    return data.find(LINE_END), data.find(HEAD_END) + len(HEAD_END)
