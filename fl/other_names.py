"""What other libraries, papers and people call what parts of ours take: torch, Keras, scikit-learn, Flower, Opacus, ByzFL."""

from collections.abc import Iterable, Mapping

LOADERS: Mapping[str, tuple[str, ...]] = {
    "label": ("target", "targets", "y", "outcome", "class", "class_column"),
    "client": ("group", "site", "hospital", "user", "owner", "by", "id", "groups"),
    "test_share": ("test_size", "split", "holdout", "validation"),
    "numbers": ("regression", "numeric"),
    "path": ("file", "folder", "filename", "root", "filepath_or_buffer", "data_dir"),
    "shape": ("size", "image_size", "input_shape"),
}
"""Of arguments of loaders of own data."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "lr": ("learning_rate", "client_lr", "local_lr", "learning_rate_init", "eta", "step_size"),
    "batch": ("batch_size", "batchsize", "local_batch_size", "bs"),
    "epochs": ("epoch", "local_epochs", "num_epochs", "n_epochs", "max_epochs"),
    "lr_decay": ("learning_rate_decay", "decay", "gamma"),
    "weight_decay": ("wd", "weight_decay_rate", "l2_penalty"),
    "prox": ("mu", "proximal_mu"),
    "loss": ("criterion", "loss_fn", "loss_function", "objective"),
    "optimizer": ("optim", "optimiser", "opt"),
    "data": ("dataset", "data_set", "datasets", "loader", "poison"),
    "model": ("net", "network", "module"),
    "algorithm": ("strategy", "method"),
    "methods": ("algorithms", "strategies"),
    "protection": ("secagg", "secure_aggregation"),
    "rounds": ("num_rounds", "n_rounds", "communication_rounds", "global_epochs", "iterations"),
    "evaluate_every": ("eval_every", "evaluation_delta", "eval_interval"),
    "validation": ("val_split", "validation_split", "validation_size"),
    "seed": ("random_state", "random_seed", "seeds"),
    "seeds": ("random_seeds", "runs", "repeats"),
    "partition": ("partitioner", "split", "distribution"),
    "adversary": ("attack", "attacker", "attackers", "byzantine"),
    "participation": ("fraction", "fraction_fit", "client_fraction", "frac", "sample_fraction", "clients_per_round"),
    "clients": ("num_clients", "n_clients", "nb_clients", "num_partitions", "n_parties", "num_users", "parties"),
    "groups": ("num_groups", "n_groups", "n_clusters", "num_clusters", "clusters"),
    "models": ("k", "n_clusters", "num_clusters", "clusters", "n_models", "num_models"),
    "alpha": ("beta", "concentration", "dirichlet_alpha", "distribution_parameter"),
    "hidden": ("hidden_size", "hidden_sizes", "hidden_layer_sizes", "hidden_dim", "units", "layers"),
    "floor": ("threshold", "min_clients", "min_fit_clients", "min_available_clients", "minimum", "reconstruction_threshold"),
    "clip": ("clipping", "clipping_range", "max_grad_norm", "l2_norm_clip", "clipping_norm"),
    "ring_bits": ("bits", "modulus_range", "quantization_range"),
    "corrupt": ("malicious", "adversaries", "collusion"),
    "dropped": ("dropout", "dropouts", "dropout_rate"),
    "multiplier": ("noise_multiplier", "sigma"),
    "budget": ("epsilon", "eps", "target_epsilon"),
    "epsilon": ("eps", "target_epsilon", "budget"),
    "delta": ("target_delta",),
    "l2": ("clip", "clipping_norm", "max_norm", "l2_norm", "sensitivity"),
    "members": ("attackers", "malicious", "byzantine"),
    "upload": ("update", "attack"),
    "attacks": ("attack", "adversaries"),
    "defences": ("defenses", "defence", "defense", "rules", "aggregators", "algorithms"),
    "strengths": ("attackers", "nb_byz", "n_byzantine", "num_attackers"),
    "protections": ("protection",),
    "f": ("nb_byz", "n_byzantine", "num_byzantine", "num_malicious", "attackers"),
    "b": ("f", "nb_byz", "trim", "n_byzantine", "num_malicious"),
    "count": ("clients", "n", "attackers"),
}
"""Of fields of dataclasses: a name is meant by those that have such a field, and none of this name itself."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "TrimmedMean": ("trmean",),
    "Median": ("coordinatewisemedian", "fedmedian", "cwmed"),
    "ALIE": ("alittleisenough", "lie"),
    "IPM": ("innerproductmanipulation", "foe"),
    "Backdoor": ("badnets", "badnet"),
    "Masked": ("secaggplus", "secagg", "secureaggregation"),
    "RecordPrivacy": ("differentialprivacy", "dpsgd", "privacyengine"),
}
"""Of rules, attacks and protections, in small letters."""
ABSENT: Mapping[str, tuple[str, ...]] = {
    "the server steps by the mean alone, as algorithms.FedAvg() does; clients may have Training(optimizer='Adam')": (
        "fedopt", "fedavgm", "fedadam", "fedadagrad", "fedyogi",
    ),
    "of what counters clients' drift there is algorithms.FedProx(mu=...)": (
        "scaffold", "feddyn", "fednova", "moon",
    ),
    "of personal models there are algorithms.PerFedAvg, FedEM, FPFC, PFedGraph and Local": (
        "ditto", "apfl", "pfedme", "fedrep", "fedper", "fedbn", "lgfedavg", "fedbabu",
    ),
    "one step a round is algorithms.FedAvg() with Training(epochs=1, batch=...) of all records": ("fedsgd",),
    "give it in algorithms.RobustFedAvg(rule=...), for instance rules.TrimmedMean, Median, MultiKrum, Bulyan": (
        "fedtrimmedavg", "fedmedian", "krum", "multikrum", "bulyan", "median", "trimmedmean", "geometricmedian", "rfa",
    ),
}  # fmt: skip
"""What takes the place of algorithms that are not here, in words; they are in small letters."""

BELONG = {
    ("PerFedAvg", "beta"): "; it is the training's, Training(lr=...), and alpha is the step that makes a model a client's own",
    ("EMDCFL", "clusters"): "; nobody says how many: they are found, by how far apart clients' data may be, EMDCFL(eps=...)",
    ("CFL", "eps1"): "; it is the thresholds', CFL(thresholds=algorithms.ScaleFree(eps1=..., eps2=...))",
    ("CFL", "eps2"): "; it is the thresholds', CFL(thresholds=algorithms.ScaleFree(eps1=..., eps2=...))",
}
"""Fields of algorithms in papers that stand elsewhere here or nowhere, by class and name."""

METRICS: Mapping[str, tuple[str, ...]] = {
    "balanced accuracy": ("balanced_accuracy", "balanced_accuracy_score", "recall", "macro recall", "bacc"),
    "macro F1": ("f1", "f1_macro", "f1_score", "f1score", "f1-score", "macro_f1"),
    "AUC": ("roc_auc", "auroc", "roc_auc_score", "roc"),
    "MSE": ("mean_squared_error", "mean squared error", "rmse", "l2"),
    "MAE": ("mean_absolute_error", "mean absolute error", "l1"),
    "R2": ("r2_score", "r^2", "r_squared"),
}
"""Of metrics, in small letters."""
LOSSES: Mapping[str, tuple[str, ...]] = {
    "cross entropy": ("ce", "xent", "nll", "crossentropy", "crossentropyloss", "nllloss", "log_loss", "categorical_crossentropy"),
    "binary cross entropy": ("bce", "bceloss", "bcewithlogits", "bcewithlogitsloss", "binary_crossentropy", "logistic"),
    "mean squared error": ("mse", "mseloss", "mse_loss", "l2", "squared_error"),
    "mean absolute error": ("mae", "l1", "l1loss", "l1_loss", "absolute_error"),
    "Huber": ("smooth_l1", "smoothl1", "smoothl1loss", "huberloss", "huber_loss"),
}
"""Of losses, in small letters."""
EXAMPLES = {"thresholds": "algorithms.ScaleFree(eps1=0.4, eps2=0.74)"}
"""What a field may hold, where neither its name nor a default helps anybody."""


def absent(name: str) -> str:
    """What takes the place of an algorithm of this name, in words; empty where that is not known."""
    return next((words for words, theirs in ABSENT.items() if name.casefold().replace("_", "") in theirs), "")


def said_otherwise(name: str, takes: Iterable[str], others: Mapping[str, tuple[str, ...]] = FIELDS) -> str:
    """What is taken, of these, where it is called like this elsewhere; empty where nobody calls it so."""
    there = set(takes)
    return next((ours for ours, theirs in others.items() if ours in there and name.casefold() in theirs), "")
