"""A real server in its own process, and a plain HTTP client for it."""

import http.client
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from octostore.wire.tokens import new_token
from tests.support.connections import Connection, Response, Stream
from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.starting import PROGRAM, start


class ServerProcess:
    """Runs `octostore serve` with its data in `home`, until the block ends."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        port: int | None = 0,
        env: dict[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
        token: str | None = None,
    ) -> None:
        """`token` is the admin token, if the server does not create it; `port` is None for a Unix socket."""
        self.home = home
        self._token = token
        self._seq = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this object; a pipe that nobody reads fills up
        address = [] if port is None else ["--port", str(port)]
        command = [*program, "serve", *address, *arguments]
        # Not in the arguments, which others can read, and without the test's own variables.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OCTOSTORE_")}
        self.process = start(
            command,
            cwd=ROOT,
            env={**clean, "OCTOSTORE_HOME": str(home), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.greeting = self._read_greeting()
        self.url = self.greeting[0].split()[-1]
        self.port = int(self.url.rpartition(":")[2]) if self.url.startswith("http") else 0

    def _read_greeting(self) -> list[str]:
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("try: "):
            line = self.process.stdout.readline()
            if not line:
                code = self.process.wait(PATIENCE_SECONDS)
                problem = AssertionError(f"the server did not start, and ended with {code}: {self.log}")
                self._let_go()
                raise problem
            lines.append(line.rstrip("\n"))
        return lines

    @property
    def log(self) -> str:
        """Its stderr so far."""
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()

    def check_has_not_failed(self) -> None:
        """Check the log: to its reader, a failed stream looks like one that ended."""
        assert "Traceback" not in self.log, self.log

    @property
    def token(self) -> str:
        return self._token or self.token_file.read_text().strip()

    @property
    def token_file(self) -> Path:
        """The path that the server prints."""
        said = "its token is in"
        return next(Path(line.removeprefix(said).strip()) for line in self.greeting if line.startswith(said))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Response:
        """As the admin, unless there is a `token`; an empty one sends none. `raw` is sent as it is."""
        fields = self._fields(token, headers)
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, content, fields)
            return Response.read_from(connection.getresponse())
        finally:
            connection.close()

    def _fields(self, token: str | None, headers: dict[str, str] | None) -> dict[str, str]:
        secret = self.token if token is None else token
        return {**(headers or {}), **({"Authorization": f"Bearer {secret}"} if secret else {})}

    def get(self, path: str, **options: Any) -> Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Response:
        return self.request("POST", path, body, **options)

    def call_job(self, job_id: str, call: str, body: Any = None, **options: Any) -> Response:
        """`POST /jobs/{id}/{call}`."""
        return self.post(f"/jobs/{quote(job_id, safe='')}/{call}", body, **options)

    def claim(self, job_id: str, owner: str = "agent-1", **body: Any) -> str:
        """Claim the job, and return the lease id."""
        response = self.call_job(job_id, "claim", {"owner": owner, "ttl_seconds": 600, **body})
        assert response.json["status"] == "claimed", response
        lease_id: str = response.json["lease_id"]
        return lease_id

    def stream(self, path: str, *, token: str | None = None, headers: dict[str, str] | None = None) -> Stream:
        """Server-sent events. The caller closes it."""
        fields = {"Accept": "text/event-stream", **self._fields(token, headers)}
        return Stream(self.port, path, fields)

    def connect(self) -> Connection:
        """A raw connection. The caller closes it."""
        return Connection(self.port)

    def guess(self, number: int = 100, **headers: str) -> list[Response]:
        """Send wrong tokens, each on its own connection, all before the first response."""
        with ExitStack() as at_end:
            connections = [at_end.enter_context(self.connect()) for _ in range(number)]
            fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
            for connection in connections:
                head = f"GET /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {new_token()}\r\n{fields}\r\n"
                connection.send(head.encode())
            return [connection.response() for connection in connections]

    @property
    def seq(self) -> int:
        """The number of the last event."""
        while (after := self.get(f"/events?limit=1000&after={self._seq}").json["after"]) != self._seq:
            self._seq = after
        return self._seq

    def events(self, job_id: str) -> list[Any]:
        found: list[Any] = self.get(f"/events?limit=1000&job={job_id}").json["events"]
        return found

    def new_token(self, name: str, *scopes: str, prefix: str = "", **options: Any) -> str:
        body = {"name": name, "scopes": list(scopes) or ["read", "claim"], "prefix": prefix, **options}
        response = self.post("/tokens", body)
        assert response.status == 201, response
        token: str = response.json["token"]
        return token

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._let_go()

    def _let_go(self) -> None:
        self._log.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
