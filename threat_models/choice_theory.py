"""What is provable of a client that chooses among models by examples of its own, whoever made them, and however many attack.

**Statement.** K models are offered to a client over a run. Its loss of each on one example is from 0 to 1 (1 where it is wrong,
say), it has m examples, drawn independently from its own distribution, and no model depends on them. It keeps the model of the
least mean loss on these so far, as it is. Then with probability at least 1 - delta its expected loss is, all the while, at most
that of the best model offered so far plus `keep_best_bound(K, m, delta)`.

**Proof.** By Hoeffding a mean over m examples is further than e from its expectation with probability at most 2 exp(-2 m e^2);
for all K at once with at most delta, where e = sqrt(log(2 K / delta) / (2 m)). Then the kept model's expected loss is at most
its mean loss plus e, that is at most the mean loss of the best plus e, which is at most its expected loss plus 2 e. Nothing is
said of who offers.

**What it does not say.** That a good model is on the list: the best one offered may be that of the client alone. Anything of
harm below the bound, which is .11 for ten models and 1,000 examples and .92 for 14 (delta .05), or of backdoors, whose inputs the
distribution does not have.

**Why the hardened FLIC does not have it.** What it offers depends on earlier choices, and so on the examples; the chosen model is
trained on; a choice is by cross entropy, which has no upper end; and it is by examples that the client trained on, unless
the scenario holds some out (`validation`). With half of the clients and more corrupt it promises nothing (`design_limit.py`).
"""

from math import log, sqrt


def keep_best_bound(models: int, examples: int, delta: float) -> float:
    """2 sqrt(log(2 K / delta) / (2 m)): what a client that keeps the best of K models by m examples loses on the best at most.

    >>> round(keep_best_bound(10, 1000, 0.05), 2)
    0.11
    """
    if models < 1 or examples < 1:
        raise ValueError(f"there is at least one model and one example, not {models} and {examples}")
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability above 0 and below 1, not {delta}")
    return 2 * sqrt(log(2 * models / delta) / (2 * examples))
