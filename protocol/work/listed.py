"""Who is who in a run whose parties have certificates: from the directory that a client verified, and not from its coordinator.

A coordinator that could say who the others are could be all of them, and read one client's update out of a sum with its own. So a
client signs with the identities that the directory of the authority has for it, and checks what others signed against those that
it has for them. They last longer than a run. What has to be fresh is made anew in every session (keys for masks, seals and seeds)
and is signed by them over the session, whose digest has the run's name; and that name follows from the authority, from the
directory's name and from what was drawn for this run alone, which a client enters once. The coordinator still says who is
enrolled, and is held to it: a client whose directory says otherwise leaves before it has signed anything.

Without certificates, on the loopback device, clients draw identities for the run and believe what they are told of others': for
trying out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...crypto.identity import SigningKey
from ..core.errors import Refused


@dataclass(frozen=True, slots=True)
class Listed:
    """identities: a client's own, by what it signs for. enrolled: everybody's public ones, by the same and by id. enter: called
    before anything is signed with them in this run, with what names the journal; raises Refused where they did with another.
    """

    identities: Mapping[str, SigningKey] = field(repr=False)
    enrolled: Mapping[str, Mapping[int, bytes]] = field(repr=False)
    enter: Callable[[bytes], object] = field(repr=False)

    def check(self, shown: Any) -> None:
        """Raises Refused unless the coordinator shows the clients and identities of the directory, and no others."""
        if not isinstance(shown, Mapping) or shown.keys() != self.enrolled.keys():
            raise Refused("the coordinator shows no identities, or for other uses than clients sign for")
        for use, of in self.enrolled.items():
            theirs = shown[use]
            if not isinstance(theirs, Mapping) or theirs.keys() != of.keys():
                raise Refused(f"the coordinator shows other clients for {use!r} than it named, or none")
            for client, public in of.items():
                if theirs[client] != public:
                    found = f"the coordinator shows an identity of client {client} for {use!r} that is not in the directory"
                    raise Refused(f"{found}: it lies, or it and this client have not the same directory")
