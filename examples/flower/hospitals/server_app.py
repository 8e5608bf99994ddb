"""What Flower runs at the server."""

from pathlib import Path

from cloister.flower import server_app

app = server_app(Path(__file__).with_name("scenario.py"))
