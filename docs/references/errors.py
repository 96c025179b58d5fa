"""The reference of errors, from the table of codes."""

from collections.abc import Iterator

from docs.references.markdown import FOLDER, code, page, table
from octostore.wire.errors import ERRORS

PATH = FOLDER / "errors.md"
ABOUT = """\
For each error code: the exception, the HTTP status, the exit code, and what to do. The library raises the exception;
the command line exits with the exit code and, with `--json`, prints `error` and `code`; a server responds with the HTTP
status and a document like this:

```json
{
  "error": "lease_id is required",
  "code": "invalid_input",
  "details": "See /docs for the fields of this call; nothing was changed.",
  "field": "lease_id",
  "request_id": "req_0b9e1c9e6a5c4f6e9d0c2f6f3f0f8f11"
}
```

A server uses all codes in the table; the library and `--json` use one for each exception. For example, if a token
belongs to another server, the server responds with `authentication_failed`, the library raises `NotAllowed`, whose
`code` is `not_allowed`, and `--json` prints `not_allowed`.

`invalid_input` is 422 instead of 400 if a field of the body is missing, unknown or of the wrong type. With
`Accept: application/problem+json`, the response is a problem document (RFC 9457). `retry_after_ms`, if present, says
when to try again. An empty queue is not an error: the reply has the status `empty`, and the exit code is 10.
"""


def reference() -> str:
    return page("Errors", "src/octostore/wire/errors.py", _lines())


def _lines() -> Iterator[str]:
    yield from ABOUT.splitlines()
    yield ""
    rows = (
        (
            code(name),
            f"[`{kind.raises.__name__}`](python.md#{kind.raises.__name__.lower()})",
            str(kind.status),
            str(kind.exit_code),
            ", ".join(map(code, kind.carries)),
            kind.advice,
        )
        for name, kind in ERRORS.items()
    )
    yield from table(["code", "exception", "HTTP", "exit code", "carries", "what to do"], rows)
    yield from ("", "See also all [exit codes](cli.md#exit-codes), including those that are not errors.")
