"""The cheapest break of a defence that a search finds: the hardened FLIC on handwritten digits, 20 clients, and rules beside it.

Run it:  cloister attack examples/attack_search.py --attackers 1-12                the hardened FLIC, clients alike
         cloister attack examples/attack_search.py:skewed --attackers 1-9          the same with labels dealt by Dirichlet(0.5)
         cloister attack examples/attack_search.py:fashion --attackers 1-9         Fashion-MNIST, 100 images each; :skewed_fashion
         cloister attack examples/attack_search.py --against "MultiKrum(6)"        a rule, as an expression
         cloister attack examples/attack_search.py --goal accuracy --fix schedule=always   no backdoors, all rounds attacked

Needs the extra: pip install 'cloister[search]'. A search says what it found and how much it tried, never that there is nothing.
"""

from dataclasses import replace

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Digits, FashionMnist
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain

scenario = Scenario(
    name="digits",
    data=Digits(),
    partition=Iid(clients=20, shared_test=True),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=HardenedFLIC(rounds_before=10, every=5),
    protection=Plain(),
    rounds=40,
)
skewed = replace(scenario, name="skewed digits", partition=Dirichlet(clients=20, alpha=0.5, shared_test=True))
fashion = replace(scenario, name="Fashion-MNIST", data=FashionMnist(), partition=Iid(clients=20, samples=100, shared_test=True))
skewed_fashion = replace(
    fashion, name="skewed Fashion-MNIST", partition=Dirichlet(clients=20, alpha=0.5, samples=100, shared_test=True)
)
