"""Every environment variable, for `octostore --help` and for the reference in docs/."""

from octostore.cli.commands.serve import TOKENS_FILE_VARIABLE
from octostore.cli.failures import DEBUG_VARIABLE
from octostore.cli.options import LEASE_VARIABLE
from octostore.client.http.server_url import CLEAR_TEXT_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from octostore.client.owner import OWNER_VARIABLE
from octostore.client.tracing import TRACING_VARIABLE
from octostore.stores.opening import HOME_VARIABLE, URL_VARIABLE
from octostore.supervise.report import (
    CHECKPOINT_VARIABLE,
    FENCING_VARIABLE,
    JOB_VARIABLE,
    PREVIOUS_VARIABLE,
    SOCKET_VARIABLE,
)

VARIABLES = {
    URL_VARIABLE: "store: sqlite:///FILE, postgresql://…, http(s):// for a server (default: your own file)",
    HOME_VARIABLE: "folder for your own file and a server's tokens (default: ~/.local/share/octostore)",
    TOKEN_VARIABLE: "the token for a server",
    TOKEN_FILE_VARIABLE: "file that contains the token, readable only by you",
    CLEAR_TEXT_VARIABLE: "1 allows sending the token over plain HTTP; trusted networks only",
    OWNER_VARIABLE: "your name, as others see it (default: host:pid, or see the command's --owner)",
    LEASE_VARIABLE: "the lease id, for commands that need one",
    TOKENS_FILE_VARIABLE: "serve: file of preconfigured tokens",
    "OCTOSTORE_LISTEN_URL": "if PostgreSQL is behind a pooler: URL of a direct connection, for notifications",
    TRACING_VARIABLE: "1 creates OpenTelemetry spans; needs the otel extra",
    "TRACEPARENT": "enqueue: the W3C trace context to store with the job",
    DEBUG_VARIABLE: "1 prints a traceback for internal errors",
    "SSL_CERT_FILE": "for https://: file of the CA certificates to trust",
    "NO_COLOR": "if set, output has no colours",
}

INSIDE = {
    JOB_VARIABLE: "the job",
    FENCING_VARIABLE: "the fencing token; pass it with writes to other systems, so that they can refuse late writes; "
    "heartbeat and release send it",
    "OCTOSTORE_ATTEMPT": "1, or more if earlier owners failed or disappeared",
    CHECKPOINT_VARIABLE: "file that contains the last checkpoint; missing if there is none",
    PREVIOUS_VARIABLE: "JSON about the last attempt: owner, attempt, how, claimed_at, ended_at, note, error and "
    "reason; empty if this is the first",
    "OCTOSTORE_KIND": "work: the job's kind",
    "OCTOSTORE_QUEUE": "work: the job's queue",
    "TRACEPARENT": "the W3C trace context of the attempt; without tracing, the one stored with the job",
    SOCKET_VARIABLE: "the socket through which progress and checkpoint reach run or work",
}
"""Set for commands that `run` and `work` start."""
