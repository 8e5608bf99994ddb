"""The log of a process of a deployment: lines of JSON on stderr."""

import json
import logging
import sys
import time

_OF_A_RECORD = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """A log entry as one line of JSON: time, level, what, and what belongs to it. Nothing that is logged is secret, and of bytes
    it has their number alone.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        more = {key: value for key, value in vars(record).items() if key not in _OF_A_RECORD}
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "what": record.getMessage(), **more}
        return json.dumps(line, default=_plain)


class _OnStderr(logging.Handler):
    """Lines on whatever is stderr at the time, so that they go above a view of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def _plain(value: object) -> str:
    """Of what JSON has no word for."""
    return f"{len(value)} bytes" if isinstance(value, bytes | bytearray | memoryview) else str(value)


def log_to_stderr() -> logging.Logger:
    """As JSON lines on stderr."""
    log = logging.getLogger("cloister")
    if not log.handlers:
        handler = _OnStderr()
        handler.setFormatter(JsonLines())
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    return log
