"""Robust aggregation rules: each declares the least it must see, and most need nothing but a Gram matrix.

| sees | rules | steps before a rule |
| --- | --- | --- |
| sum | Mean | Bucketing |
| norms | NormBound | Clip, ARC |
| Gram matrix | Krum, MultiKrum, MDA, SMEA, GeometricMedian, RFA, CenteredClipping, CAF, FoolsGold, FLTrust, FLAME, ClippedClustering, CFLDefence | NNM, KrumPicks |
| coordinates | Median, TrimmedMean, Meamed, Phocas, Bulyan, RobustLearningRate, DnC | |
| updates | SignGuard, FreqFed | |

The kinds are what views can answer. Four rules use less than theirs, for which no view has an answer of its own: RobustLearningRate
the sum and the sum of signs, DnC Gram matrices of random coordinates, Bulyan one Gram matrix and order statistics of its picks,
SignGuard norms and every update's counts of signs. FreqFed uses the Gram matrix of the updates' low frequencies, which are linear in
them.

`aggregate` applies any of them to full updates; `fl.algorithms.robust_sum` has a server view answer them. CRFL, which acts on
the model that a sum has made, is in `smoothing`.
"""  # noqa: E501
