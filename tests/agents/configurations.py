"""Client settings as people write them: contents of each kind of file, as bytes."""

from typing import NamedTuple

MCP = '"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "ü"}}}'
LAID_OUT = """{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "files"]
    }
  },
  "permissions": {"allow": ["Bash(ls:*)"]}
}
"""
FOREIGN_HOOKS = """{
  "version": 1,
  "model": "opus",
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {"type": "command", "command": "say done"}
        ]
      }
    ],
    "PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "make fmt"}]}],
    "stop": [{"command": "./notify.sh"}],
    "sessionStart": [
      {"command": "./hello.sh"}
    ],
    "beforeShellExecution": [{"command": "./guard.sh"}]
  }
}
"""
COMMENTED = """// Settings of the team. Ask before you change them.
{
  /* what agents may use
     here */
  "mcpServers": { // all of them
    // the files
    "files": {"command": "npx"}, // from npm, { not } [ from ] "us"
    /* off: "old": {} */
  },
  "hooks": {
    // none yet, /* really */
    "Stop": [
      // quiet
    ]
  } // the end
}
// after the end
"""
JSON = {
    "missing": None,
    "empty": b"",
    "blank": b"\n  \n",
    "only-a-bom": b"\xef\xbb\xbf",
    "bom": b"\xef\xbb\xbf" + LAID_OUT.encode(),
    "empty-object": b"{}",
    "empty-object-and-line": b"{}\n",
    "open-object": b"{\n}\n",
    "roomy-object": b"{ }",
    "one-line": b"{" + MCP.encode() + b"}",
    "one-roomy-line": b"{ " + MCP.encode() + b', "a": [ ] }\n',
    "minified": b'{"a":1,"mcpServers":{"x":{"url":"http://h"}},"hooks":{"Stop":[{"hooks":[]}]}}',
    "laid-out": LAID_OUT.encode(),
    "no-final-line-break": LAID_OUT.rstrip().encode(),
    "crlf": LAID_OUT.replace("\n", "\r\n").encode(),
    "tabs": LAID_OUT.replace("  ", "\t").encode(),
    "four-spaces": LAID_OUT.replace("  ", "    ").encode(),
    "mixed-line-breaks": LAID_OUT.replace("\n", "\r\n", 3).encode(),
    "comments": COMMENTED.encode(),
    "comments-crlf": COMMENTED.replace("\n", "\r\n").encode(),
    "foreign-hooks": FOREIGN_HOOKS.encode(),
    "foreign-hooks-crlf-tabs": FOREIGN_HOOKS.replace("  ", "\t").replace("\n", "\r\n").encode(),
    "trailing-commas": b'{\n  "mcpServers": {"a": {"command": "b",},},\n  "hooks": {"Stop": [],},\n}\n',
    "empty-containers": b'{"mcpServers": {}, "hooks": {}}\n',
    "roomy-containers": b'{\n  "mcpServers": {\n  },\n  "hooks": { }\n}\n',
    "empty-arrays": b'{\n  "hooks": {"Stop": [], "stop": [ ], "SessionStart": [\n  ]}\n}\n',
    "only-a-version": b'{\n  "version": 1\n}\n',
    "unicode": '{\n  "näme ☃ \U0001f600": "\\u00fc \\ud83d\\ude00 \\"",\n  "mcpServers": {"日本": {}}\n}\n'.encode(),
    "brackets-in-text": b'{"a": "}{][\\",//", "mcpServers": {"b": {"args": ["/* { */"]}}}',
    "nested": b'{"a": '
    + b"[" * 60
    + b"]" * 60
    + b', "projects": {"/x": {"mcpServers": {"octostore": {"command": "y"}}}}}',
    "numbers": b'{"a": [0, -1, 1.5e-7, 123456789012345678901234567890, true, null]}\n',
    "their-own-octostore": b'{\n  "mcpServers": {\n    "octostore": {"url": "https://locks.example.org/mcp"}\n  }\n}\n',
    "key-is-last": b'{\n  "z": 1,\n  "mcpServers": {"a": {}} }',
    "margins": b'\n\n   {\n        "a": 1,\n   "b": 2\n}   \n\n',
}
BROKEN_JSON = {
    "half": b'{"mcpServers": {"a": ',
    "not-json": b"mcpServers: {}\n",
    "array": b"[]",
    "text": b'"settings"',
    "null-servers": b'{"mcpServers": null, "hooks": null}',
    "list-of-servers": b'{"mcpServers": ["a"], "hooks": ["a"]}',
    "hooks-of-the-wrong-type": b'{"mcpServers": 1, "hooks": {"Stop": {}, "stop": {}}}',
    "twice": b'{"a": 1, "a": 2}',
    "utf-16": LAID_OUT.encode("utf-16"),
    "latin-1": b'{"a": "\xfc"}',
    "single-quotes": b"{'a': 1}",
    "text-after-the-end": b"{} {}",
    "open-comment": b'{"a": 1} /* unfinished',
    "deep": b"[" * 5_000,
    "line-break-in-text": b'{"a": "b\nc"}',
    "digits": b'{"a": ' + b"9" * 5_000 + b"}",
}
SERVERS = """# Codex
model = "gpt-5"

[mcp_servers.files]
command = "npx"  # from npm
args = ["-y", "files"]

[projects."/home/ann/shop"]
trust_level = "trusted"
"""
TOML = {
    "missing": None,
    "empty": b"",
    "blank": b"\n",
    "only-a-bom": b"\xef\xbb\xbf",
    "servers": SERVERS.encode(),
    "bom": b"\xef\xbb\xbf" + SERVERS.encode(),
    "no-final-line-break": SERVERS.rstrip().encode(),
    "crlf": SERVERS.replace("\n", "\r\n").encode(),
    "crlf-no-final-line-break": SERVERS.rstrip().replace("\n", "\r\n").encode(),
    "blank-lines-at-the-end": SERVERS.encode() + b"\n\n\n",
    "comment-only": b"# nothing yet",
    "comment-at-the-end": SERVERS.encode() + b"# the end",
    "keys-only": b'model = "gpt-5"\n',
    "dotted": b'mcp_servers.files.command = "npx"\n',
    "inside-a-table": b'[mcp_servers]\n[mcp_servers.files]\ncommand = "npx"\n',
    "arrays-of-tables": b'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say done"\n',
    "many-lines": b'text = """\n[mcp_servers.fake]\n# octostore:begin\n"""\n',
    "unicode": '["tést ☃"]\nname = "日本 \\u00fc"\n'.encode(),
    "tabs": b"[a]\n\tb = 1\n\t[a.c]\n\td = 2\n",
    "dates": b"at = 2026-11-17T14:00:00Z\nday = 2026-11-17\nfar = inf\n",
    "inline-elsewhere": b'tui = { theme = "dark" }\n[features]\nhooks = true\n',
    "their-own-octostore": b'[mcp_servers.octostore]\nurl = "https://locks.example.org/mcp"\n',
    "spaces-at-the-end": b"a = 1\n   ",
}
BROKEN_TOML = {
    "half": b"[mcp_servers",
    "twice": b"a = 1\na = 2\n",
    "latin-1": b'a = "\xfc"\n',
    "inline-servers": b'mcp_servers = { files = { command = "npx" } }\n',
    "list-of-servers": b'mcp_servers = ["files"]\n',
}
MARKDOWN = {
    "missing": None,
    "empty": b"",
    "one-line": b"# Rules",
    "usual": b"# Rules\n\nBe kind.\n",
    "crlf": b"# Rules\r\n\r\nBe kind.\r\n",
    "crlf-no-final-line-break": b"# Rules\r\nBe kind.",
    "blank-lines": b"# Rules\n\n\n",
    "only-blank-lines": b"\n\n",
    "bom": b"\xef\xbb\xbf# Rules\n",
    "mixed": b"a\r\nb\nc",
    "carriage-return": b"a\r",
    "unicode": "# Rüles ☃\n".encode(),
    "import": b"@AGENTS.md\n",
    "marks-of-others": b"<!-- beads:begin v1 -->\nx\n<!-- beads:end -->\n",
}


class Configuration(NamedTuple):
    name: str
    files: dict[str, bytes | None]


def _cycle(kinds: dict[str, bytes | None], at: int) -> bytes | None:
    return list(kinds.values())[at % len(kinds)]


def _all(servers: str, hooks: str, kinds: dict[str, bytes | None]) -> list[Configuration]:
    """Every kind of either file, and every kind of instructions with some of them."""
    pairs = [(name, text, JSON.get(name, _cycle(JSON, at))) for at, (name, text) in enumerate(kinds.items())]
    pairs += [(f"hooks-{name}", _cycle(kinds, at), text) for at, (name, text) in enumerate(JSON.items())]
    return [
        Configuration(
            name,
            {servers: one, hooks: other, "AGENTS.md": _cycle(MARKDOWN, at), "CLAUDE.md": _cycle(MARKDOWN, at // 2)},
        )
        for at, (name, one, other) in enumerate(pairs)
    ]


CONFIGURATIONS = {
    "claude": _all(".mcp.json", ".claude/settings.json", JSON),
    "codex": _all(".codex/config.toml", ".codex/hooks.json", TOML),
    "cursor": _all(".cursor/mcp.json", ".cursor/hooks.json", JSON),
}
BROKEN = {
    "claude": [
        (path, name, text) for path in (".mcp.json", ".claude/settings.json") for name, text in BROKEN_JSON.items()
    ],
    "codex": [(".codex/config.toml", name, text) for name, text in BROKEN_TOML.items()]
    + [(".codex/hooks.json", name, text) for name, text in BROKEN_JSON.items()],
    "cursor": [
        (path, name, text) for path in (".cursor/mcp.json", ".cursor/hooks.json") for name, text in BROKEN_JSON.items()
    ],
}
