"""The exit codes."""

SUCCESS = 0
NOTHING_TO_DO = 10
HELD = 11
UNHEALTHY = 12
LOST = 20
BAD_INPUT = 64
UNREACHABLE = 69
INTERNAL_ERROR = 70
OUTPUT_FAILED = 74
NOT_ALLOWED = 77
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    SUCCESS: "success (`run`: the command's own exit code)",
    NOTHING_TO_DO: "nothing to do: the queue is empty, or the job is done",
    HELD: "unavailable: held by another owner, delayed or dead, or the wait timed out",
    UNHEALTHY: "`health`: the status is as bad as --fail-on, or worse",
    LOST: "the lease was lost (`run`: the command was stopped)",
    BAD_INPUT: "bad input or configuration",
    UNREACHABLE: "the store cannot be reached",
    INTERNAL_ERROR: "internal error",
    OUTPUT_FAILED: "the output cannot be written, for example to a full disk; the command itself may have succeeded",
    NOT_ALLOWED: "not allowed",
}

CLAIMS = {
    "claimed": SUCCESS,
    "held": HELD,
    "delayed": HELD,
    "done": NOTHING_TO_DO,
    "dead": HELD,
    "empty": NOTHING_TO_DO,
}
"""By the status of a claim's reply."""
