"""A stop in order: asked for at any moment, and kept between two words, so that nothing is half done."""

from dataclasses import dataclass


class Halted(Exception):
    """It was asked for."""


@dataclass(slots=True)
class Halt:
    """asked: by another thread, or a signal's handler."""

    asked: bool = False

    def check(self) -> None:
        """Raises Halted."""
        if self.asked:
            raise Halted("stopped")
