"""Who is corrupt, what they see and what they do: poisoning adversaries, their knowledge, and what they achieved.

An `Adversary` names who, when and with what knowledge, and takes attacks by what they change. K0 to K3: the least level of
knowledge (`knowledge.py`); data and training are a member's own and need K0 where nothing is said.

| Adversary field | attacks | module |
| --- | --- | --- |
| data | LabelFlip, SwappedLabels, DynamicLabelFlip, LabelShuffle, SymmetricNoise, PairNoise | label_attacks |
| data | Backdoor (BadNets, blended, sinusoid, clean label, by trigger), DistributedBackdoor (DBA), EdgeCase | backdoors, triggers |
| data | SpuriousPatch, SpuriousGreen: features that go with a label | semantic |
| data | A3FL (K1): a trigger that members learn together | a3fl |
| data | TunedTrigger (K1): one that they tune within a ball, and then train with in a way of their own | cerp |
| local | GradientAscent, ConstrainAndScale, ProjectedDescent (PGD), Neurotoxin | training_attacks |
| local | AlternatingMinimisation | alternating |
| local | CriticalLayers (layer-wise) | critical_layers |
| local | Chameleon | chameleon |
| local | Fragmentation: loyal clients are to look unlike each other | cluster_timing |
| upload | K0: MinusGradient, Null, Stale (free rider), RandomVector, GaussianNoise, Overwritten (NaN, infinite, huge), Scaled (model replacement), NormBounded, Honest; K1: SignFlip | simple_attacks |
| upload | K1: ALIE, IPM, MinMax, MinSum, FangKrum, FangTrim | collusion |
| upload | K1: CerP, which poisons its own training: near clean work, members unlike each other | cerp |
| upload | K3: LineSearched (optimal_alie, optimal_ipm) | line_search |
| upload | K3: Tailored (stat_opt, dyn_opt) | tailored |
| upload | K2: Mimic (copies one honest client); K3: ArbitraryTarget (FLIC's equation 3) | targeted_uploads |
| upload | K0: Tilted, CloakedCollusion; K1: Hider; K2: Bridge, VictimCapture | cluster_attacks |
| upload | K0: LoneFaker; K1: Faker: a similarity that stays, an update that does not | similarity_attacks |
| upload | K0: FlippedClasses; K1: TwoKinds, Unshared, OneWay: by who has read how a defence parts clients | dividing |
| upload | K1: Together: the same, one way and each against its own | together |
| upload | Jittered, SignBalanced: about another attack, at its level | variants |
| upload | K0: Magnified, Diminished: another attack's upload, at any length | magnified |
| upload | K0: LoneInLayer; InLayer: another attack in one layer, at its level | partial |
| upload, shown | K0: KernelPoison; shown alone: a member with two faces | liars |
| upload | K2: OfHonest: a function of the honest updates, such as another library's | functions |
| choice | K0: WorstModel, Pretended; K2: SameAs | forged_choices |
| when, silent | mimic_then_flip, last_impression, late_assignment | cluster_timing |
| samples | a factor on the reported number of examples | adversary |

`suites` has families of them, at several strengths each. Plain functions are attacks, too (`functions.py`).

Not here: 3DFed (Li et al. 2023), which learns from the next model whether its indicator was accepted and sends decoys: an attack
on uploads that looks back (`attack.LearningAttack`) could. It needs nothing of a view.

Beside `Adversary`: ForgedEmbeddings, clients that pose as others in EMD-CFL (forged_embeddings). `cloister evaluate` plays grids of
these against the rules of `cloister.fl.robust` and the algorithms; `cloister attack` searches among them (`search`).
"""  # noqa: E501
