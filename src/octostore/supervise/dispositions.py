"""How signals are treated, before we have our own wishes: a command must start with what we were started with."""

import signal

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""What whoever started us may want to tell the command."""
ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
"""Those after which nobody expects anything of it to be left."""
_TERMINAL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Dispositions:
    """To be made before any of them is changed."""

    def __init__(self) -> None:
        changed = (*FORWARDED, *_TERMINAL, signal.SIGCHLD, signal.SIGPIPE)
        self._ignored = {number: signal.getsignal(number) is signal.SIG_IGN for number in changed}
        # Python ignores it for itself; nobody wants that for their commands.
        self._ignored[signal.SIGPIPE] = False

    @property
    def forwarded(self) -> list[signal.Signals]:
        """Without those that whoever started us (`nohup`) did not want to be noticed."""
        return [number for number in FORWARDED if not self._ignored[number]]

    def ignore_all(self) -> None:
        for number in self._ignored:
            if number != signal.SIGCHLD:
                signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        for number, is_ignored in self._ignored.items():
            signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
