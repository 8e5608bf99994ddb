"""placeholder until the cards come"""

from .audit.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
