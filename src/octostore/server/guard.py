"""Keeps web pages of other origins away from the server, including pages that use DNS rebinding."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from octostore.server.http import Headers, Request
from octostore.server.refusals import host_not_allowed, not_from_page, origin_not_allowed
from octostore.server.settings import Settings

MAX_KNOWN_HOSTS = 256
LOCAL_NAMES = {"localhost", "ip6-localhost"}
SAFE = {"GET", "HEAD"}

ALLOWED_HEADERS = [
    b"authorization",
    b"content-type",
    b"idempotency-key",
    b"last-event-id",
    b"traceparent",
    b"x-octostore-deadline-ms",
    b"mcp-protocol-version",
    b"mcp-method",
    b"mcp-name",
]


class Guard:
    def __init__(self, settings: Settings) -> None:
        self._hosts = {name.lower() for name in settings.allow_hosts}
        self._origins = set(settings.allow_origins)
        self._known_hosts: set[bytes] = set()
        # On loopback, only known host names are allowed: a page can point its own name here (DNS rebinding), and its
        # requests then count as same-origin. On other addresses only the operator knows our names, so they are checked
        # once some are configured; without a token, a page learns little more than the version.
        self._checks_hosts = settings.uds is None and (is_loopback(settings.host) or bool(self._hosts))

    def check(self, request: Request) -> Headers:
        """Return the CORS headers for the response. Raises a refusal."""
        host = request.headers.get(b"host", b"")
        if host not in self._known_hosts:
            self._check_host(host)
        return self._check_origin(request) if b"origin" in request.headers else ()

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        if "@" in text or (self._checks_hosts and not self._is_known_name(_host_name(text))):
            raise host_not_allowed(text)
        if len(self._known_hosts) < MAX_KNOWN_HOSTS:  # each name can come with many ports
            self._known_hosts.add(host)

    def _is_known_name(self, name: str) -> bool:
        return name in self._hosts or is_loopback(name)

    def _check_origin(self, request: Request) -> Headers:
        origin = request.headers[b"origin"].decode("latin-1")
        if self._is_own(request, origin):
            return ()
        if origin not in self._origins:
            raise origin_not_allowed()
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]

    def check_page(self, request: Request) -> None:
        """Refuse requests with a cookie unless they come from our own page."""
        site = request.headers.get(b"sec-fetch-site")
        if site is not None:
            is_own = site == b"same-origin" or (site == b"none" and request.method in SAFE)
        elif b"origin" in request.headers:
            is_own = self._is_own(request, request.headers[b"origin"].decode("latin-1"))
        else:
            is_own = request.method in SAFE
        if not is_own:
            raise not_from_page()

    def preflight(self, request: Request) -> Headers | None:
        """The headers of the response to a CORS preflight; None if the request is not one."""
        if b"access-control-request-method" not in request.headers:
            return None
        return [
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
            (
                b"access-control-allow-headers",
                b", ".join(ALLOWED_HEADERS),
            ),
            (b"access-control-max-age", b"600"),
        ]

    def _is_own(self, request: Request, origin: str) -> bool:
        """Whether the request comes from a page of this server."""
        if request.headers.get(b"sec-fetch-site") == b"same-origin":
            return True  # compare no hosts: a proxy may have changed ours
        host = request.header(b"host")
        return bool(host) and origin.lower() in {f"http://{host}".lower(), f"https://{host}".lower()}


def is_loopback(name: str) -> bool:
    if name in LOCAL_NAMES:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """The host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
