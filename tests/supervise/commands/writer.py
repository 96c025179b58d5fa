"""Writes the time to its claim's file until it is killed. `writer.py FOLDER`."""

import os
import signal
import sys
import time

PAUSE_SECONDS = 0.005

signal.signal(signal.SIGTERM, signal.SIG_IGN)
name = f"{os.environ['OCTOSTORE_JOB']}.{os.environ['OCTOSTORE_FENCING_TOKEN']}"
file = os.open(os.path.join(sys.argv[1], name), os.O_CREAT | os.O_APPEND | os.O_WRONLY)  # noqa: PTH118
while True:
    os.write(file, f"{time.time():.6f}\n".encode())
    time.sleep(PAUSE_SECONDS)
