"""What Flower runs at each hospital."""

from pathlib import Path

from cloister.flower import client_app

app = client_app(Path(__file__).with_name("scenario.py"))
