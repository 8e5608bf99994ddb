"""EMD-CFL on PACS (section 5.2): 18 clients with the images of one of four domains each, groups that nobody planted.

Four clients have art, four cartoons, three photographs and seven sketches. The models are pre-trained: FILE is what
torch.save(network.state_dict(), FILE) wrote, here of torchvision's MobileNetV2 (`Pretrained` says how another network is named).
`scenario` trains all of it at 224 x 224, as the paper trains its ResNet18: a task for a GPU. `quick` freezes it,
on 64 x 64 images, and trains a perceptron on its vectors; its file is `partition.by.weights`.
  cloister run examples/emd_cfl_pacs.py:quick --set partition.by.weights=FILE --data FOLDER
  python examples/emd_cfl_compare.py examples/emd_cfl_pacs.py:quick --set partition.by.weights=FILE --seeds 0 --out runs/emd
"""

from dataclasses import replace

from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED, EMDCFL, PRINTED, Gap
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import TopicPerClient
from cloister.fl.data.source import Pacs
from cloister.fl.models.papers import Mlp
from cloister.fl.models.pretrained import Embedded, Pretrained
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.pairs.choices import PER_PAIR

DOMAINS = TopicPerClient(clients=18, per_topic=(4, 4, 3, 7))

scenario = Scenario(
    name="EMD-CFL on PACS",
    data=Pacs(size=224),
    partition=DOMAINS,
    model=Pretrained(),
    training=Training(epochs=10, batch=64, lr=0.001, momentum=0.9, weight_decay=1e-6),
    algorithm=PRINTED,
    protection=Plain(),
    rounds=10,
    validation=0.2,
)
as_published = replace(scenario, algorithm=AS_PUBLISHED)
quick = replace(
    scenario,
    name="EMD-CFL on PACS, quick",
    data=Pacs(size=64),
    partition=Embedded(partition=DOMAINS, by=Pretrained(size=64), tests=100),
    model=Mlp(hidden=(128,)),
    training=Training(epochs=10, batch=32, lr=0.02, momentum=0.9),
    algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR),
    rounds=4,
    validation=0.25,
)
