"""The table at a run's end says of every sum that was not opened why, and keeps what nobody chose apart."""

from cloister.protocol.parts.slot_words import too_few_chose
from cloister.reporting.without_sums import TOLD, without_sums


def shut(t: int, name: str, why: str) -> dict[str, object]:
    return {"round": t, "cluster": f"{name}@{t}", "members": [], "why": why}


def test_a_model_that_the_floor_shut_is_not_said_to_be_chosen_by_nobody() -> None:
    """Before: "cluster model 2, 10 times: no client chose it", of one that two clients chose in round 0, and one in round 1."""
    chose = [2, 1, *[0] * 8]
    said = dict(without_sums([shut(t, "models/1", too_few_chose(n, 3, 1)) for t, n in enumerate(chose)]))
    opened = "where it is opened for 3 or more: the floor of 2, and 1 who may drop out before it is summed"
    two, one = f"2 clients chose it, {opened}", f"1 client chose it, {opened}"
    assert said["without a sum"] == f"model 2 in round 0: {two}; model 2 in round 1: {one}"
    assert said["chosen by nobody"] == "model 2 in rounds 2 to 9"


def test_clusters_with_one_reason_are_told_together_and_many_reasons_are_counted() -> None:
    few = [shut(0, "0", "too few"), shut(1, "0", "too few"), shut(3, "1", "too few")]
    assert dict(without_sums(few)) == {"without a sum": "clusters 0, 1 in rounds 0 to 1, 3: too few"}
    assert [*without_sums([])] == []
    many = dict(without_sums([shut(t, "0", f"because {t}") for t in range(TOLD + 2)]))
    assert many["without a sum"].endswith("because 5; 2 more reasons stand in the report")
