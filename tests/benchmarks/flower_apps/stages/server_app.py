"""Plays rounds, and writes when messages went out and answers came."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import ServerApp

SCENARIO = Path(__file__).with_name("scenario.py")
app = ServerApp()


class Timed:
    """A grid that says when it was used. times: (seconds, "sent" or "came", messages)."""

    def __init__(self, grid):
        self._grid, self.times = grid, []

    def __getattr__(self, name):
        return getattr(self._grid, name)

    def push_messages(self, messages):
        messages = list(messages)
        self.times.append((time.monotonic(), "sent", len(messages)))
        return self._grid.push_messages(messages)

    def pull_messages(self, names):
        found = list(self._grid.pull_messages(names))
        if found:
            self.times.append((time.monotonic(), "came", len(found)))
        return found

    def send_and_receive(self, messages, *, timeout=None):
        return type(self._grid).send_and_receive(self, messages, timeout=timeout)


@app.main()
def main(grid, context):
    given, timed = context.run_config, Timed(grid)
    if given["by"] == "cloister":
        from cloister.flower.server import play
        from cloister.scenario_file import load, with_settings

        for _ in play(with_settings(load(str(SCENARIO)), [f"rounds={given['rounds']}"]), Path(given["out"]), timed):
            timed.times.append((time.monotonic(), "round", 0))
    else:
        from flwr.common import ndarrays_to_parameters

        initial = ndarrays_to_parameters([np.zeros(64 * 16 + 16 + 16 * 10 + 10, np.float32)])

        def aggregated(metrics):
            timed.times.append((time.monotonic(), "round", 0))
            return {}

        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_fit_clients=4,
            min_available_clients=4,
            initial_parameters=initial,
            fit_metrics_aggregation_fn=aggregated,
        )
        config = ServerConfig(num_rounds=int(given["rounds"]))
        legacy = LegacyContext(context=context, config=config, strategy=strategy)
        DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2))(timed, legacy)
    Path(given["times"]).write_text(json.dumps(timed.times))
