"""Threat models and the claims that they name: each card has its parts, each promise what backs it, README's table their rows."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import DEALER, SECOND_SERVER
from cloister.protocol.pairs.choices import DISTANCES, ORTHONORMAL, PRINTED, PUBLIC
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, server_and
from cloister.threat_models.cards_table import CARDS, FOLDER, HEADER, card, rows, table
from cloister.threat_models.claims import CLAIMS

ROOT = Path(__file__).parents[1]
HEADINGS = ["Assets", "Adversaries", "Claimed by the paper", "Holds", "Does not hold", "Safer default"]
TAG = re.compile(r"\[(claim|test|no claim): ([^\]]+)\]")
BY_ID = {claim.id: claim for claim in CLAIMS}


def parts(name: str) -> dict[str, str]:
    """What stands under each heading of a card."""
    whole = re.split(r"^## (.+)\n", card(name), flags=re.MULTILINE)
    return dict(zip(whole[1::2], whole[2::2], strict=True))


def points(text: str) -> list[str]:
    """The items of a list, each in one line. Raises AssertionError for text that is none."""
    found = re.split(r"^- ", text.strip(), flags=re.MULTILINE)
    assert found[0] == "", found[0]
    return [" ".join(point.split()) for point in found[1:]]


def ending(point: str) -> list[tuple[str, str]]:
    """The tags that an item ends with, in order."""
    found = re.search(r"(?:\s*\[(?:claim|test|no claim): [^\]]+\])+$", point)
    return TAG.findall(found[0]) if found else []


def test_every_card_is_in_the_list() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_has_the_headings_in_their_order_and_something_under_each(name: str) -> None:
    assert list(parts(name)) == HEADINGS
    assert all(text.strip() for text in parts(name).values())
    assert card(name).split("-->\n", 1)[1].startswith("# ")


@pytest.mark.parametrize("name", CARDS)
def test_every_promise_ends_with_what_backs_it(name: str) -> None:
    for point in points(parts(name)["Holds"]):
        tags = ending(point)
        assert tags, point
        kinds = {kind for kind, _ in tags}
        assert kinds == {"no claim"} or "no claim" not in kinds, f"backed and not backed: {point}"
        assert all(BY_ID[what].whose == "Cloister" for kind, what in tags if kind == "claim"), point


@pytest.mark.parametrize("name", CARDS)
def test_what_cards_name_exists(name: str) -> None:
    text = " ".join(card(name).split())
    assert text.count("[claim:") + text.count("[test:") + text.count("[no claim:") == len(TAG.findall(text))
    for kind, what in TAG.findall(text):
        assert kind != "claim" or what in BY_ID, what
        assert kind != "test" or (re.fullmatch(r"tests/test_\w+\.py", what) and (ROOT / what).is_file()), what
    for path in re.findall(r"`((?:protocol|examples|threat_models|crypto|fl)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", CARDS)
def test_claims_of_papers_are_named_as_such_and_nowhere_else(name: str) -> None:
    of = parts(name)
    for heading in set(HEADINGS) - {"Claimed by the paper"}:
        assert all(BY_ID[what].whose == "Cloister" for kind, what in TAG.findall(of[heading]) if kind == "claim"), heading
    for point in points(of["Claimed by the paper"]):
        assert all(BY_ID[what].whose == "paper" for kind, what in ending(point) if kind == "claim"), point


def test_every_claim_has_an_id_of_its_own_and_a_card() -> None:
    assert [identity for identity, count in Counter(claim.id for claim in CLAIMS).items() if count > 1] == []
    named = {what for name in CARDS for kind, what in TAG.findall(" ".join(card(name).split())) if kind == "claim"}
    assert named == set(BY_ID)


def test_claims_are_of_the_whole_run_and_name_their_observer() -> None:
    for claim in CLAIMS:
        assert "over the whole run, " in claim.statement, claim.id
        assert re.fullmatch(r"[a-z_]+\.[a-z-]+\.[a-z-]+", claim.id), claim.id
        assert claim.id.split(".")[1] == claim.experiment.replace(" ", "-")
        assert claim.bound == 0 if claim.experiment in ("masks", "floor") else 0 < claim.bound < 0.2, claim.id
        assert claim.side_information, claim.id


def test_readmes_table_is_that_of_the_cards() -> None:
    text = (ROOT / "README.md").read_text()
    begin = text.index(HEADER[0])
    assert text[begin : text.index("\n\n", begin)] == table()


@pytest.mark.parametrize(
    "broken", ["# No rows", "<!-- README\n| two | cells |\n-->\n# A card", "<!-- README\nwords\n-->\n# A card"]
)
def test_a_card_without_rows_that_can_be_read_is_an_error(broken: str) -> None:
    with pytest.raises(ValueError):
        rows(broken)


def about(protection: Any, algorithm: Any, observer: Observer) -> set[str]:
    """Ids of Cloister's claims on such a run against such an observer."""
    own = (claim for claim in CLAIMS if claim.whose == "Cloister")
    return {claim.id for claim in own if claim.applies(protection, algorithm) and claim.adversary(observer)}


SPLITS = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74))
SEEN = ("updates", "labels", "membership", "images", "property", "disaggregation", "counts")
DEFAULT = {f"masked.{sought}.server" for sought in SEEN}


def test_the_shipped_default_is_claimed_to_tell_the_server_alone_next_to_nothing() -> None:
    found = about(Masked(), SPLITS, SERVER_ALONE)
    exact = {"masked.masks.server", "masked.floor.server"}
    assert found == DEFAULT | exact | {"masked.inconsistent-models.server"}
    assert all(BY_ID[identity].bound == 0.1 for identity in found - exact)


@pytest.mark.parametrize(
    ("protection", "algorithm"),
    [
        (Masked(keys="run"), SPLITS),
        (Masked(), HardenedFLIC(rounds_before=1, every=1)),
        (Masked(), EMDCFL(choice=ORTHONORMAL)),
        (TwoServer(), SPLITS),
        (Encrypted(), SPLITS),
        (Permuted(), SPLITS),
        (Plain(), SPLITS),
    ],
)
def test_no_other_run_is_covered_by_the_defaults_claims(protection: Any, algorithm: Any) -> None:
    assert not DEFAULT & about(protection, algorithm, SERVER_ALONE)


def test_with_a_client_there_are_claims_of_updates_only_where_nothing_is_compared() -> None:
    one, two = server_and(3), server_and(3, 4)
    for name, protection in (("masked", Masked), ("two_servers", TwoServer)):
        masks, masks_of_two = {f"{name}.masks.server-and-client"}, {f"{name}.masks.server-and-two-clients"}
        assert about(protection(corrupt=1), FedAvg(), one) == masks | {f"{name}.updates.server-and-client"}
        assert about(protection(corrupt=2), FedAvg(), two) == masks_of_two | {f"{name}.updates.server-and-two-clients"}
        assert about(protection(corrupt=2), SPLITS, one) == masks
        assert about(protection(corrupt=2), SPLITS, two) == masks_of_two
        assert about(protection(corrupt=1), SPLITS, two) == about(protection(corrupt=1), FedAvg(), two) == set()
        assert about(protection(), FedAvg(), one) == set()
    for unprepared in (Plain(), Encrypted(), Permuted()):
        for observer in (one, two):
            assert about(unprepared, FedAvg(), observer) == about(unprepared, SPLITS, observer) == set()


def test_clients_are_covered_where_sums_have_three_others() -> None:
    one, two = Observer(clients=frozenset({0})), Observer(clients=frozenset({0, 1}))
    assert about(Masked(corrupt=2), SPLITS, two) == {"masked.updates.two-clients", "masked.labels.two-clients"}
    assert about(Masked(corrupt=1), SPLITS, one) == {"masked.updates.client", "masked.labels.client"}
    assert about(Masked(), SPLITS, one) == about(Masked(corrupt=1), SPLITS, two) == set()
    assert about(Masked(corrupt=2), EMDCFL(choice=ORTHONORMAL), two) == set()


def test_every_run_has_claims_against_the_network_and_two_servers_against_each_helper() -> None:
    for protection in (Plain(), Masked(), TwoServer(), Encrypted(), Permuted()):
        assert about(protection, FedAvg(), NETWORK) == {"links.updates.network", "links.labels.network"}
    for helper, name in ((SECOND_SERVER, "second-server"), (DEALER, "dealer")):
        found = about(TwoServer(), SPLITS, Observer(frozenset({helper})))
        unaware = {"two_servers.clusters.dealer"} if helper == DEALER else set()
        assert found == {f"two_servers.updates.{name}", f"two_servers.labels.{name}"} | unaware


def test_the_papers_claims_are_on_what_the_papers_do() -> None:
    papers = [claim for claim in CLAIMS if claim.whose == "paper"]

    def found(protection: Any, algorithm: Any) -> set[str]:
        return {claim.id for claim in papers if claim.applies(protection, algorithm) and claim.adversary(SERVER_ALONE)}

    assert found(Permuted(), SPLITS) == {"permuted.permutation.server", "permuted.labels.server"}
    assert found(Masked(), EMDCFL(choice=PRINTED)) == {"emd.embeddings.server"}
    assert found(Masked(), EMDCFL(choice=PUBLIC)) == found(Masked(), EMDCFL(choice=DISTANCES)) == found(Masked(), SPLITS) == set()
