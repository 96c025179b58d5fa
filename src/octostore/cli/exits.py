"""The exit codes."""

DID = 0
NOTHING_TO_DO = 10
HELD = 11
UNHEALTHY = 12
LOST = 20
BAD_INPUT = 64
UNREACHABLE = 69
OUR_FAULT = 70
NOT_ALLOWED = 77
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    DID: "success (`run`: the command's own exit code)",
    NOTHING_TO_DO: "nothing to do: the queue is empty, or the job is done",
    HELD: "unavailable: held by somebody else, delayed or dead, or the wait timed out",
    UNHEALTHY: "unhealthy, according to `health`",
    LOST: "the lease was lost (`run`: the command was stopped)",
    BAD_INPUT: "bad input or configuration",
    UNREACHABLE: "the store cannot be reached",
    OUR_FAULT: "internal error",
    NOT_ALLOWED: "not allowed",
}

CLAIMS = {
    "claimed": DID,
    "held": HELD,
    "delayed": HELD,
    "done": NOTHING_TO_DO,
    "dead": HELD,
    "empty": NOTHING_TO_DO,
}
"""By the status of the answer to a claim."""
