"""Every message of the protocols here, for whoever looks at any frame: recorders, auditors, tests.

Kinds: work 1-3, 7, 10, 11, 14, 15; models that clients hold 16-19, 32; scores 33, 34; choosing 8, 9; seeding 4-6, 12, 13; masked
sums 20-31, opened by one receiver 80-83; two servers 40-59; encryption 60-69; pairs 90-96. Ours are below 1,000; what is written
elsewhere takes kinds from there on.
"""

from types import MappingProxyType

from .choosing.messages import MESSAGES as CHOOSING
from .encrypted.messages import MESSAGES as ENCRYPTED
from .masked.messages import MESSAGES as MASKED
from .masked.receiver_opened.messages import MESSAGES as RECEIVER_OPENED
from .pairs.messages import MESSAGES as PAIRS
from .seeding.messages import MESSAGES as SEEDING
from .two_servers.messages import MESSAGES as TWO_SERVERS
from .two_servers.slot_messages import MESSAGES as TWO_SERVER_SLOTS
from .wire import codec
from .wire.codec import Envelope
from .wire.messages import MESSAGES as WORK
from .wire.recipes import MESSAGES as RECIPES
from .wire.scores import MESSAGES as SCORES

_PROTOCOLS = (
    *(WORK, RECIPES, SCORES, CHOOSING, SEEDING, MASKED, RECEIVER_OPENED, ENCRYPTED),
    *(TWO_SERVERS, TWO_SERVER_SLOTS, PAIRS),
)
MESSAGES = MappingProxyType({kind: message for of in _PROTOCOLS for kind, message in of.items()})
if len(MESSAGES) < sum(map(len, _PROTOCOLS)):
    raise ValueError("two protocols have messages of one kind")


def decode(data: bytes, link: int, max_bytes: int) -> Envelope:
    """`codec.decode`, of a message of any protocol."""
    return codec.decode(data, link, max_bytes, MESSAGES)
