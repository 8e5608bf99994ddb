"""Learning: data, partitions, models, local training, algorithms over a server view, scenarios and runs. torch lives here."""
