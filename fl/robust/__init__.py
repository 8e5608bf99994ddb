"""Robust aggregation rules: each declares the least it must see, and most need nothing but a Gram matrix.

| sees | rules | steps before a rule |
| --- | --- | --- |
| sum | Mean | Bucketing |
| norms | NormBound | Clip, ARC |
| Gram matrix | Krum, MultiKrum, KrumOfShare, MDA, SMEA, GeometricMedian, RFA, CenteredClipping, CAF, FoolsGold, FLTrust, FLAME, ClippedClustering, CFLDefence | NNM, KrumPicks |
| coordinates | Median, TrimmedMean, Meamed, Phocas, Bulyan, RobustLearningRate, DnC | |
| updates | SignGuard, FreqFed, LASA | |

The kinds are what views can answer. Five rules use less than theirs, for which no view has an answer of its own: RobustLearningRate
the sum and the sum of signs, DnC Gram matrices of random coordinates, Bulyan one Gram matrix and order statistics of its picks,
SignGuard norms and every update's counts of signs, FreqFed the Gram matrix of the updates' low frequencies, which are linear in
them.

`aggregate` applies any of them to full updates; `fl.algorithms.robust_sum` has a server view answer them. CRFL, which acts on
the model that a sum has made, is in `smoothing`. A plain function of all updates is a rule, too (`function.py`).

FLDetector, which keeps updates and asks for inner products over rounds, is an algorithm of its own
(`fl.algorithms.fl_detector`, its arithmetic in `prediction`).

Not here, and what a view would have to answer for it:

| rule | what it looks at |
| --- | --- |
| DeepSight (Rieger et al. 2022) | what every client's model predicts on random inputs (its DDifs): whole models, by client, run at the server. Its other two looks, the cosines and the energies of the output layer's update, are of updates alone; a third of three votes would not be the rule |
| BackdoorIndicator (Li and Dai 2024) | what every client's model does with inputs that the server has planted before: whole models, and training at the server |
"""  # noqa: E501
