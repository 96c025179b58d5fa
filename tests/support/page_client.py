"""The live page without a browser: its requests, one by one."""

from typing import Any

from tests.support.connections import Response
from tests.support.server import ServerProcess


class Browser:
    """Sends what a browser sends from the live page, and keeps its cookie."""

    def __init__(self, server: ServerProcess, **headers: str) -> None:
        self.server = server
        self.headers = {"Origin": server.url, **headers}
        self.cookie = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        fields = {**self.headers, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        return self.server.request(method, path, body, token="", headers={n: v for n, v in fields.items() if v})

    def get(self, path: str, **headers: str) -> Response:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Response:
        return self.call("POST", path, body, **headers)

    def log_in(self, **body: str) -> Response:
        response = self.post("/ui/login", body)
        if response.status == 204:
            self.cookie = response.headers["set-cookie"].partition(";")[0]
        return response

    def stream(self, path: str) -> Any:
        return self.server.stream(path, token="", headers={"Cookie": self.cookie})


def made(server: ServerProcess, name: str, *scopes: str, **options: Any) -> tuple[str, str]:
    """Create a token; return it and its id."""
    response = server.post("/tokens", {"name": name, "scopes": list(scopes) or ["read"], **options})
    return response.json["token"], response.json["token_id"]


def is_refused(response: Response, code: str = "authentication_failed") -> bool:
    return (response.status, response.json["code"]) == (401, code)
