"""Who of two servers and a dealer could read updates together, in words that both kinds of pages have."""

OF_TWO_SERVERS = "TwoServer"


def dealer_with_either(whose: str, k: int) -> str:
    """What the dealer and either server have together, as threat_models/cards/two_servers.md says. whose: "its update", say.

    k: projections in a comparison; 0 where it is not known.
    """
    projections, most = (f"{k} projections", f"{k} numbers") if k else ("k projections", "k numbers")
    return (
        f"From every comparison the dealer and either server together could read {projections} of {whose}, or the update itself"
        f" where it has no more than {most}"
    )
