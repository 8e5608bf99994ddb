"""Answers both: Cloister's queries, and the fits of Flower's workflow, whose updates are drawn."""

from pathlib import Path

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod

from cloister.flower import client_app

LENGTH = 64 * 16 + 16 + 16 * 10 + 10


class Drawn(NumPyClient):
    def fit(self, parameters, config):
        return [np.random.default_rng(0).standard_normal(LENGTH).astype(np.float32)], 10, {}


ours = client_app(Path(__file__).with_name("scenario.py"))
theirs = ClientApp(client_fn=lambda context: Drawn().to_client(), mods=[secaggplus_mod])


class Both(ClientApp):
    def __call__(self, message, context):
        app = ours if message.metadata.message_type.startswith("query") else theirs
        return app(message, context)


app = Both(client_fn=lambda context: Drawn().to_client())
