"""The `cloister` command, and `python -m cloister`: stopped by Ctrl-C at whatever moment, it ends without a traceback."""

import signal
import sys
from contextlib import suppress


def main() -> None:
    """Entry point. What the command works with is imported here, as Ctrl-C may come meanwhile."""
    try:
        from .cli import main as play

        play()
    except KeyboardInterrupt:
        sys.stderr.write("cloister: stopped\n")
        sys.exit(130)
    finally:
        with suppress(ValueError):  # in another thread
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends it: what libraries do at exit would say where


if __name__ == "__main__":
    main()
