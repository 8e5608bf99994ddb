"""How a protocol fails: by a peer's fault (ProtocolError) or because it must not answer (Refused)."""


class ProtocolError(Exception):
    """A peer broke the protocol; the state before its message is still good.

    reason: one line. blame: the party id that the message came from.
    """

    def __init__(self, reason: str, blame: int) -> None:
        super().__init__(f"{reason} (party {blame})")
        self.reason = reason
        self.blame = blame


class Refused(ValueError):
    """A view was asked for what it must not or cannot answer. The message says what and why."""
