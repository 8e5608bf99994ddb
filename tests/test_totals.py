"""What each party learned in all: what a server compared of nobody is none of it, what it asked another for is."""

from cloister.protocol.view.disclosure import Disclosure, totals


def test_a_comparison_for_which_nobody_sent_anything_is_none() -> None:
    log = [
        Disclosure(0, "server", "gram", (0, 1), 3, 24, "compared"),
        Disclosure(1, "server", "gram", (0, 1), 0, 0, "compared"),
        Disclosure(1, "server", "participation", (0, 1), 0, 0, "who"),
        Disclosure(1, "second server", "gram", (0, 1), 0, 0, "whose were asked for"),
    ]
    found = totals(log)
    assert [(row["what"], row["times"]) for row in found["server"]] == [("gram", 1), ("participation", 1)]
    assert [(row["what"], row["times"]) for row in found["second server"]] == [("gram", 1)]
