"""Describes its own process, except what depends on its pid; then ends as the argument says."""

import json
import os
import random
import sys
import threading
from pathlib import Path

from tests.support.running import signals_of

how = sys.argv[1]
read = sys.stdin.read()
described = {
    "arguments": sys.argv[1:],
    "folder": str(Path.cwd()),
    "environment": dict(os.environ),
    "parent": os.getppid(),
    "leads": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
    "group": None if os.getpgid(0) == os.getpid() else os.getpgid(0),
    "descriptors": sorted(int(file.name) for file in Path("/proc/self/fd").iterdir() if file.exists()),
    "threads": threading.active_count(),
    "ignored": sorted(signals_of(os.getpid(), "SigIgn")),
    "blocked": sorted(signals_of(os.getpid(), "SigBlk")),
    "caught": sorted(signals_of(os.getpid(), "SigCgt")),
    "streams": [[s.encoding, s.errors, s.line_buffering] for s in (sys.stdin, sys.stdout, sys.stderr)],
    "read": read,
    "main": __name__,
}
sys.stdout.write(json.dumps({**described, "random": random.random()}) + "\n")
sys.stderr.write("and to those who look for faults\n")
if how == "fail":
    sys.exit("it failed")
if how == "raise":
    raise ZeroDivisionError
if how == "leave a thread":
    threading.Timer(0.1, sys.stdout.write, ["late\n"]).start()
sys.exit(3 if how == "3" else None)
