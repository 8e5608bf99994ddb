"""Robust aggregation rules: each declares the least it must see, and most need nothing but a Gram matrix.

| sees | rules | steps before a rule |
| --- | --- | --- |
| sum | Mean | Bucketing |
| norms | NormBound | Clip, ARC |
| Gram matrix | Krum, MultiKrum, MDA, SMEA, GeometricMedian, CenteredClipping, CAF, FoolsGold, FLTrust, FLAME, ClippedClustering, CFLDefence | NNM, KrumPicks |
| coordinates | Median, TrimmedMean, Meamed, Phocas, Bulyan, RobustLearningRate, DnC | |
| updates | SignGuard | |

`aggregate` applies any of them to full updates; `fl.algorithms.robust_sum` has a server view answer them. CRFL, which acts on
the model, is in `smoothing`.
"""  # noqa: E501
