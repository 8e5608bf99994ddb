"""A coordinator's numbers for Prometheus, and its health, over HTTP: no names of clients, and nothing that they said.

GET /metrics: Prometheus' text format. GET /health: 200 while the run is in progress, in words that are others where what lets
links in has expired, which no restart would cure. GET /ready: 200 when enough clients are there for it to begin, and others may
come. Both say 503 else. Nobody who asks is authenticated: its address should be one that operators alone reach.
"""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..fl.runs.vitals import Vitals

LOOPBACK = "127.0.0.1"
Now = Callable[[], Vitals]
GAUGES = {
    "round": "Rounds that were played.",
    "rounds": "Rounds that the run has.",
    "cohort": "Clients of the run.",
    "connected": "Clients that are connected.",
    "clusters": "Clusters after the last round.",
    "unplaced": "Clients that are in no cluster after the last round.",
    "running": "1 while the run is in progress: from when the coordinator listens.",
    "stalled": "Seconds since anything moved on a link.",
    "life": "How often the coordinator was started for this run.",
}
COUNTERS = {
    "bytes_in": "Bytes received on links.",
    "bytes_out": "Bytes sent on links.",
    "unanswered": "Words that clients did not answer in time, those to clients that were away among them.",
    "late": "Answers that came when nobody waited any more.",
    "displaced": "Streams that another one of the same client took the place of.",
    "refused": "Streams of nobody that may come.",
    "slow": "Times that a client moved nothing for too long.",
    "revoked": "Clients that were sent away, as their certificates are not in force any more.",
}


class Collected:
    """A collector of prometheus_client."""

    def __init__(self, now: Now) -> None:
        self._now = now

    def collect(self) -> Iterator[Any]:
        """All families, at this moment."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        vitals = self._now()
        for name, words in GAUGES.items():
            yield GaugeMetricFamily(f"cloister_{name}", words, float(getattr(vitals, name)))
        words = "Clusters whose training stands still, as no sum of theirs is opened."
        yield GaugeMetricFamily("cloister_stopped_clusters", words, float(len(vitals.stopped)))
        yield GaugeMetricFamily("cloister_owing", "Clients that owe an answer.", float(len(vitals.owing)))
        yield GaugeMetricFamily(
            "cloister_owing_longest_seconds", "Of these, for how long.", max(vitals.owing.values(), default=0.0)
        )
        words = "Clients whose certificate is revoked, with no other in its place, also since before the run."
        yield GaugeMetricFamily("cloister_revoked_clients", words, float(vitals.barred))
        words = "When the coordinator's own certificate, its directory and its revocation list end, in Unix seconds."
        ends = GaugeMetricFamily("cloister_expiry_timestamp_seconds", words, labels=["of"])
        for of, until in vitals.ends.items():
            ends.add_metric([of], float(until))
        yield ends
        if vitals.accuracy is not None:
            yield GaugeMetricFamily("cloister_accuracy", "Mean over clients, after the last round.", vitals.accuracy)
        for name, words in COUNTERS.items():
            yield CounterMetricFamily(f"cloister_{name}", words, float(getattr(vitals, name)))


class Metrics:
    """An HTTP server in a thread of its own, from `start` to `stop`.

    address: HOST:PORT, or a port of the loopback device; 0 for any. least: clients that make it ready, 0 for all of the run's.
    Raises ImportError that says what to install, ValueError and OSError for an address.
    """

    def __init__(self, address: str, now: Now, least: int) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError:
            raise ImportError("metrics need prometheus-client: pip install 'cloister[deploy]'") from None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Collected(now))
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"metrics are served at HOST:PORT, for example 127.0.0.1:9400, not at {address!r}")
        try:
            self._server = ThreadingHTTPServer((host.strip("[]") or LOOPBACK, int(port)), _handler(registry, now, least))
        except OSError as error:
            raise OSError(f"metrics cannot be served at {address}: {error.strerror or error}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def start(self) -> str:
        """Serve; where, as a URL."""
        self._thread.start()
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _handler(registry: Any, now: Now, least: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET of three paths."""

        server_version, sys_version = "cloister", ""
        timeout = 10

        def do_GET(self) -> None:
            """See the module."""
            from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                case "/health":
                    vitals = now()
                    off = b"starting\n" if vitals.starting else b"over\n"
                    well = f"degraded: {vitals.expired}\n".encode() if vitals.expired else b"ok\n"
                    self._answer(*((200, well) if vitals.running else (503, off)))
                case "/ready":
                    vitals = now()
                    needed = least or vitals.cohort
                    ready = vitals.running and vitals.connected >= needed > 0 and not vitals.expired
                    closed = f", and nobody can come: {vitals.expired}" if vitals.expired else ""
                    self._answer(200 if ready else 503, f"{vitals.connected} of {needed} clients{closed}\n".encode())
                case _:
                    self._answer(404, b"/metrics, /health, /ready\n")

        def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: whoever asks is an operator's tool, every few seconds."""

    return Handler
