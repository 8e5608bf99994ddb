"""Robust aggregation rules: each declares the least it must see, and most need nothing but a Gram matrix.

| sees | rules | steps before a rule |
| --- | --- | --- |
| sum | Mean | Bucketing |
| norms | NormBound | Clip, ARC |
| Gram matrix | Krum, MultiKrum, MDA, SMEA, GeometricMedian, RFA, CenteredClipping, CAF, FoolsGold, FLTrust, FLAME, ClippedClustering, CFLDefence | NNM, KrumPicks |
| coordinates | Median, TrimmedMean, Meamed, Phocas, Bulyan, RobustLearningRate, DnC | |
| updates | SignGuard, FreqFed, LASA | |

The kinds are what views can answer. Five rules use less than theirs, for which no view has an answer of its own: RobustLearningRate
the sum and the sum of signs, DnC Gram matrices of random coordinates, Bulyan one Gram matrix and order statistics of its picks,
SignGuard norms and every update's counts of signs, FreqFed the Gram matrix of the updates' low frequencies, which are linear in
them.

`aggregate` applies any of them to full updates; `fl.algorithms.robust_sum` has a server view answer them. CRFL, which acts on
the model that a sum has made, is in `smoothing`. A plain function of all updates is a rule, too (`function.py`).

Not here, and what a view would have to answer for it:

| rule | what it looks at |
| --- | --- |
| FLDetector (Zhang et al. 2022) | whether a client's update is what its last one and the models since predict: every client's updates and the models, kept |
| DeepSight (Rieger et al. 2022) | what every client's model predicts on random inputs, and the update of its output layer: whole models, by client |
| BackdoorIndicator (Li and Dai 2024) | what every client's model does with inputs that the server has planted before: whole models, and training at the server |
"""  # noqa: E501
