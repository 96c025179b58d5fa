"""`octostore` on a machine so busy that timers are a quarter of a second late."""

import sys
import time
from types import SimpleNamespace

from octostore.cli.main import main
from octostore.client import lateness

vars(lateness).update(NAPS_IF_BUSY=2, time=SimpleNamespace(sleep=lambda seconds: time.sleep(seconds + 0.25)))

sys.exit(main())
