"""Every claim that a threat model names (`cards/*.md`), as a value: what `cloister audit` tries to refute.

Cloister's are what is promised. The papers' are what they say of themselves; some are expected to fall. "Nothing beyond the sums"
is said of an attack's best effort here; that it is so of any attack rests on the simulator tests that the cards name.
"""

from ..audit.claim import Claim
from . import embeddings, encrypted, links, masked, permuted, two_servers

CLAIMS: tuple[Claim, ...] = (
    *masked.CLAIMS,
    *two_servers.CLAIMS,
    *encrypted.CLAIMS,
    *permuted.CLAIMS,
    *embeddings.CLAIMS,
    *links.CLAIMS,
)
