"""The script of the demo."""

JOB_ID = "github-issue-1842"
AGENTS = ("agent-1", "agent-2", "agent-3", "agent-4", "agent-5")
TTL_SECONDS = 3
STEPS = ("reading the issue", "reproducing the bug", "writing a fix", "running the tests", "opening a pull request")
STEP_SECONDS = 0.8
FATAL_STEP = 4
"""The step in which the first owner is killed."""
RESULT = {"pr": 77}
NOTE = "pull request 77 is open"
PATIENCE_SECONDS = 60
"""A demo that takes longer has failed."""
