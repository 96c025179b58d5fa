"""Signal dispositions as we inherited them: a command must start with the same ones."""

import signal

FORWARDED_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals to us that are meant for the command."""
TERMINATING_SIGNALS = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
"""Signals after which none of the command's processes should be left."""
_TERMINAL_SIGNALS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Dispositions:
    """Create it before changing any of them."""

    def __init__(self) -> None:
        changed = (*FORWARDED_SIGNALS, *_TERMINAL_SIGNALS, signal.SIGCHLD, signal.SIGPIPE)
        self._ignored = {number: signal.getsignal(number) is signal.SIG_IGN for number in changed}
        # Python ignores SIGPIPE for itself; commands expect the default.
        self._ignored[signal.SIGPIPE] = False

    @property
    def forwarded(self) -> list[signal.Signals]:
        """Without those we were started to ignore, for example by `nohup`."""
        return [number for number in FORWARDED_SIGNALS if not self._ignored[number]]

    def ignore_all(self) -> None:
        for number in self._ignored:
            if number != signal.SIGCHLD:
                signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        for number, is_ignored in self._ignored.items():
            signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
