"""The first words of an audit, its remedies and its tables: what is worst comes first, and nothing vanishes."""

import io
import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import cloister
from cloister import threats
from cloister.auditing import play as auditing
from cloister.auditing import report
from cloister.auditing.audited import audited
from cloister.auditing.command import AuditSeeds, HowMuch
from cloister.auditing.first_words import _leaks_in_words, headline, notes, sentences
from cloister.auditing.report import BUDGET_WORDS, render, untried
from cloister.auditing.result import Audited
from cloister.auditing.sought import SOUGHT
from cloister.auditing.tables import claims_table, measured_table, tables
from cloister.cli import app
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.runs.privacy import ran_out
from cloister.fl.runs.scenario import described
from cloister.protocol import Masked, Plain, TwoServer
from cloister.protocol.uploaded.central import CentralNoise
from cloister.protocol.view.functionality import Functionality
from cloister.reporting.headline import privacy_in_words
from cloister.reporting.page import environment
from cloister.reporting.run_data import Run
from cloister.scenario_file import load
from cloister.threat_models.audit.claim import judged
from cloister.threat_models.audit.clusters import DECIDED
from cloister.threat_models.audit.experiment import FULL, QUICK
from cloister.threat_models.audit.experiments import EXPERIMENTS
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.scoring import auc_within, exposed_of, fewest_victims, leakage, remedy
from cloister.threat_models.audit.tries import failure
from cloister.threat_models.audit.uncovered import leaks, unclaimed
from cloister.threat_models.claims import CLAIMS
from cloister.threat_models.claims.runs import PLAINLY, in_words
from cloister.threats import Attack

from .test_audit import claim
from .test_audit_coalitions import scenario
from .test_audit_command import row

SPLITS = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74))
small = replace(scenario, algorithm=FedAvg(by_samples=False), protection=Masked(), rounds=2)


def found(*rows, **more):
    plain = {
        "name": "x", "scenario": {}, "protection": "p", "budget": {"name": "quick"}, "seeds": [0], "seconds": 1.0,
        "rows": list(rows), "meters": [], "machine": {}, "versions": {},
    }  # fmt: skip
    return plain | more


def bare(observer, experiment, value, **leak):
    """A row without a claim."""
    plain = row("refuted", value=value) | {"observer": observer, "experiment": experiment, "claims": []}
    return plain | {"leakage": plain["leakage"] | leak}


# --- first words ------------------------------------------------------------------------------------------------------------


def test_a_claims_remedy_counts_the_seeds_that_were_played():
    """Before: "take more than 1 seed" of three, as victims of one alone could be compared."""
    by_chance = leakage(np.array([0.1, 0.2]), np.zeros(2), np.array([0.9, -0.1]), np.random.default_rng(0))
    assert not by_chance.valid
    assert "more than 3 seeds" in judged(claim, by_chance, seeds=3).witness
    assert "more than 1 seed" in judged(claim, by_chance).witness


def test_a_leak_that_no_claim_covers_comes_first():
    rows = [row("not refuted"), bare("network", "clusters", 1.0), bare("server and client 0", "labels", 0.62)]
    words = headline(found(*rows))
    assert words.startswith(
        "Parties of this run can find out what Cloister does not promise to hide from them (in brackets how much of it, where"
        " 100 % is as much as without any protection): whoever watches the"
        " network can tell which clients share a cluster (100 %); server and client 0 can tell how frequent each label is"
        " with a client (62 %). The one claim was tested and is not refuted"
    )
    page = render(found(*rows)).replace("\N{NO-BREAK SPACE}", " ")
    assert "<li>whoever watches the network can tell which clients share a cluster (100 %)</li>" in page
    assert "<li>server and client 0 can tell how frequent each label is with a client (62 %)</li>" in page


def test_who_makes_the_clusters_is_said_to_know_them():
    """A board read that a client and a wiretapper could tell the clusters, and nothing of the server."""
    decides = [bare(who, "clusters", 0.0) | {"leakage": None, "reason": DECIDED} for who in ("server", "server and client 0")]
    lines = sentences(found(*decides, bare("client 3", "clusters", 1.0))).places[0][1]
    knows = "server / server and client 0 know which clients share a cluster, as the server decides it"
    assert lines == ("client 3 can tell which clients share a cluster (100 %)", knows)
    assert headline(found(decides[0])).startswith("Parties of this run can find out")


def test_what_is_little_and_no_guess_is_said_with_its_area():
    told = {"told": {"here": {"area": {"low": 0.51, "value": 0.55, "high": 0.58}}}, "anchor": "chance"}
    little = bare("outsider", "membership by the final model", 0.5, valid=False, needed=0)
    words = "Little, and yet more than by guessing: an outsider who is handed the final models can tell whether a record was"
    assert f"{words} trained on (AUC 0.55, 0.51 to 0.58, where 0.50 is a guess)." in headline(found(little | told))
    guess = {"told": {"here": {"area": {"low": 0.49, "value": 0.55, "high": 0.58}}}, "anchor": "chance"}
    for other in (little | guess, little | told | {"anchor": "sums alone"}, bare("outsider", "membership", 0.5) | told):
        assert "Little, and yet" not in headline(found(other))


def test_what_is_named_for_some_victims_says_of_how_many():
    some = bare("client 3", "membership", 0.17, low=-0.06, high=0.46, exposed=[1, 4], victims=16)
    assert "(17 %, -6 % to 46 %; half of it and more of 2 of 16 victims)" in headline(found(some))


def test_a_coalition_that_was_tried_alone_has_the_tile_and_not_the_server():
    """Before: "the server alone: none, no attack works even in clear", where the server had not been tried."""
    audited = found(bare("server and clients 0, 3", "updates", 0.09, upper=0.31))
    tile = report.tiles(audited)[4]
    assert (tile.label, tile.value) == ("server and clients 0, 3", "0.31")


def test_where_nothing_could_be_tried_the_tile_says_so():
    """Before: "none: no attack works even in clear" of a run in slots, which no attack reads."""
    unread = {"leakage": None, "reason": "sums of slots are not read yet"}
    tile = report.tiles(found(*(bare("server", name, 0.0) | unread for name in ("updates", "labels"))))[4]
    assert (tile.value, tile.detail) == ("not tried", "sums of slots are not read yet")
    assert report.tiles(found(bare("server", "updates", 0.0, valid=False)))[4].detail == "no attack works even in clear"


def test_observers_on_whom_nothing_could_be_tried_are_named_with_the_reason_and_in_the_table() -> None:
    """Before: "Nobody else was tried than server / client 0 / outsider", where of server and client every attack had no result,
    and a terminal's table without them.
    """

    def unread(who: str, *reasons: str) -> list[dict[str, object]]:
        return [
            bare(who, name, 0.0) | {"leakage": None, "reason": why}
            for name, why in zip(("updates", "labels"), reasons, strict=True)
        ]

    own, seen = "models of their own are not read", bare("outsider", "membership by the final model", 0.5, valid=False)
    whom = ["server", "client 0", "outsider"]
    page = found(*unread("server", own, own), *unread("client 0", own, "targets are tokens"), seen, against=whom)
    words = headline(page)
    assert words.startswith(f"Nothing could be tried on what these saw, and nothing is known of it: server / client 0 ({own}).")
    assert "Nobody else was tried than outsider." in words
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(measured_table(page))
    assert console.export_text().count("nothing could be tried") == 2
    assert "Nobody else was asked about than server." in headline(found(*unread("server", own, own), against=["server"]))
    exact = unread("server", own, own)
    exact[0] |= {"tested": True}
    assert "Nothing could be tried" not in headline(found(*exact))


def test_what_could_not_be_tried_is_said_once_for_each_reason():
    rows = [bare(who, "clusters", 0.0) | {"leakage": None, "reason": "the server decides it"} for who in ("server", "client 0")]
    assert untried(found(*rows)) == [("clusters", "the server decides it", ["server", "client 0"])]


def test_a_leak_that_a_claim_of_ours_is_about_or_that_says_nothing_is_not_named():
    assert leaks([row("refuted", value=0.9)]) == []
    assert leaks([bare("server", "labels", 0.9, valid=False)]) == []
    assert leaks([bare("server", "labels", 0.1)]) == []
    ((observer, ((experiment, leak),)),) = leaks([row("refuted", "paper", value=0.9)])
    assert (observer, experiment, leak["value"]) == ("server", "updates", 0.9)
    assert [observer for observer, _ in leaks([bare("server", "labels", 0.05, exposed=[3])])] == ["server"]
    words = headline(found(bare("server", "labels", 0.12, low=0.02, high=0.3)))
    assert "server can tell how frequent each label is with a client (12 %, 2 % to 30 %)." in words
    by_chance = headline(found(bare("server", "labels", 0.12, low=-0.05, high=0.24)))
    assert "can tell" not in by_chance, "what may be chance is no finding"


def test_what_is_found_by_guessing_is_no_leak_where_sums_alone_are_worse_by_chance() -> None:
    """ "client 0 can tell a property of a client's data (47 %)" was said of an AUC of .5, where sums alone had less."""

    def told(value: float, low: float, high: float, leaked: float = 0.47) -> str:
        area = {"here": {"area": {"value": value, "low": low, "high": high}}}
        return headline(found(bare("client 0", "property", leaked, low=0.38, high=0.81) | {"told": area}))

    assert "client 0 can tell a property of a client's data (47 %" in told(0.7, 0.6, 0.8)
    assert "a property of" not in told(0.5, 0.4, 0.6)
    undecided = told(0.58, 0.45, 0.7)
    assert "can tell" not in undecided
    assert "Undecided, as so few victims may show it by chance: client 0: a property of a client's data (47 %" in undecided
    sure = bare("client 0", "property", 0.05, low=-0.1, high=0.2, exposed=[3])
    sure |= {"told": {"here": {"area": {"value": 0.52, "low": 0.49, "high": 0.55}}}}
    assert "can tell" not in headline(found(sure)), "of whom a guess may have found as much"
    sure["leakage"] |= {"ranked": True}
    assert "client 0 can tell a property of" in headline(found(sure)), "near guessing on average and sure of one victim"
    perfect = bare("server", "property", 1.0, low=1.0, high=1.0, exposed=[0, 1])
    perfect |= {"told": {"here": {"area": {"value": 1.0, "low": 0.5, "high": 1.0}}}}
    words = headline(found(perfect))
    assert "Undecided, as so few victims may show it by chance: the server" in words or "chance: server: a property" in words
    lone = bare("client 0", "labels", 1.0, valid=False, low=0.0, exposed=[0, 6], victims=12) | {}
    lone["leakage"] |= {"lone": True}
    words = headline(found(lone))
    assert "with a client (half of it and more of 2 of 12 victims; of the others there is too little to find)" in words


def test_areas_of_runs_that_go_right_and_wrong_are_no_narrower_than_runs_are_apart() -> None:
    """A property that is right of all clients in some runs, and wrong of all in others, was told "AUC 0.63, 0.54 to 0.72"."""
    right, wrong = (np.arange(8.0) + 5, np.arange(8.0)), (np.arange(8.0), np.arange(8.0) + 5)
    several = auc_within([wrong, right, right, wrong, right], alike=True)
    assert several.value > 0.55
    assert several.low < 0.3
    assert several.high == 1
    one = auc_within([right], alike=True)
    assert (one.low, one.high) == (0.0, 1.0)
    assert auc_within([right]).low > 0.7, "scores that do not go together count by themselves"
    assert auc_within([right] * 5, alike=True).low > 0.7


def test_a_victim_of_whom_nothing_is_to_be_found_is_not_exposed() -> None:
    here, sums, plain = np.array([0.3, 0.1]), np.zeros(2), np.array([0.09, 0.8])
    assert exposed_of(here, sums, plain) == ()
    assert exposed_of(np.array([0.3, 0.5]), sums, plain) == (1,)


def test_of_many_leaks_the_largest_are_named_and_the_others_counted():
    rows = [bare("server", name, value) for name, value in zip("abcde", (0.2, 0.9, 0.3, 0.5, 0.4), strict=True)]
    words = "server can tell what 'b' seeks (90 %), what 'd' seeks (50 %), what 'e' seeks (40 %), 2 more."
    assert words in headline(found(*rows))


def test_everything_that_is_sought_is_said_in_plain_words():
    assert SOUGHT.keys() == {one.name for one in EXPERIMENTS}


def test_what_published_sums_tell_is_said_where_it_is_more_than_guessing():
    """Leakage is measured from there, so that a protection of sums has none of it."""

    def of_sums(low, area, observer="server"):
        told = {
            "here": {"area": {"low": 0.4, "value": 0.5, "high": 0.6}},
            "sums alone": {"area": {"low": low, "value": area, "high": 0.7}},
        }
        return bare(observer, "membership", 0.0) | {"told": told}

    words = "the published sums alone tell whether a record was trained on (AUC 0.62, 0.55 to 0.70)"
    said = headline(found(row("not refuted"), of_sums(0.55, 0.62), of_sums(0.55, 0.62, "client 0")))
    assert said.count(words) == 1
    assert "published sums alone tell" not in headline(found(row("not refuted"), of_sums(0.45, 0.55)))


def test_what_sums_tell_of_updates_is_a_mean_and_of_some_client_more() -> None:
    """ "0.12 and more" was the mean of .04 to .21."""
    one = bare("server", "updates", 0.0, aggregate=0.116) | {"anchor": "sums alone"}
    one |= {"values": {"sums alone": [0.037, 0.214, 0.097]}}
    mean = "single clients' updates (0.12 in the mean, up to 0.21, of what sets them apart from their cluster's mean"
    assert mean in headline(found(one))
    alike = one | {"values": {"sums alone": [0.116] * 3}}
    assert "updates (0.12 of what sets them apart" in headline(found(alike))


def test_refuted_claims_come_before_leaks():
    assert headline(found(row("refuted"), bare("network", "clusters", 1.0))).startswith("The one claim is refuted: x. Parties of")


def test_claims_that_are_not_of_this_run_are_counted_and_named_with_the_reason():
    few = unclaimed(CLAIMS, Masked(keys="run"), SPLITS)
    ids = {name for one in few for name in one.claims}
    assert {"masked.updates.server", "masked.labels.server", "masked.updates.server-and-client"} <= ids
    assert not ids & {c.id for c in CLAIMS if c.whose != "Cloister" or c.applies(Masked(keys="run"), SPLITS)}
    plain = found(row("not covered") | {"leakage": None}, unclaimed=[asdict(one) for one in few], run="CFL asks for gram")
    first = next(one for one in few if one.who == "the server alone")
    hidden = ", ".join(SOUGHT[name] for name in dict.fromkeys(first.sought))
    assert "single clients' updates" in hidden
    assert (
        f"{len(ids)} more promises of Cloister's hold under other settings, and not for this run, which does not promise to hide"
        f" from the server alone: {hidden}, and more named below."
    ) in headline(plain)
    one = found(row("not covered") | {"leakage": None}, unclaimed=[asdict(few[0]) | {"claims": ["x"]}], run="CFL asks for gram")
    assert "1 more promise of Cloister's holds under other settings, and not for this run" in headline(one)
    lines = notes(plain)
    assert lines[0] == "claims that no attack of this audit tested, so that nothing is known of them here: x (w)"
    first = next(line for line in lines if "from the server alone" in line)
    assert first.startswith("Cloister does not promise for this run to hide from the server alone: single clients' updates, ")
    assert first.endswith("It does so only under Masked, keys of one session, only differences of updates compared")
    assert lines[-1] == "why these are not promised for this run: CFL asks for gram"
    assert "keys of one session" in render(plain)


def test_what_a_run_asks_for_is_said_in_words_for_all_that_can_be_asked():
    assert PLAINLY.keys() == {*Functionality}
    assert in_words(Masked(keys="run", floor=4), SPLITS) == (
        "CFL asks the server for sums of updates; how much updates differ from each other; which cluster's updates a client's"
        " are like (keys of one run, floor 4, corrupt clients reckoned with: 0)"
    )


@pytest.mark.parametrize(
    ("protection", "algorithm", "expected"),
    [
        (Masked(corrupt=2), FedAvg(), set()),
        (Masked(corrupt=2), SPLITS, {"masked.updates.server-and-client", "masked.updates.server-and-two-clients"}),
        (Plain(), FedAvg(), set()),
    ],
)
def test_what_is_claimed_of_a_run_is_not_said_to_be_missing(protection, algorithm, expected):
    assert {name for one in unclaimed(CLAIMS, protection, algorithm) for name in one.claims} == expected


def test_every_claim_knows_its_kin():
    for one in CLAIMS:
        assert one.where
        assert one.who
    for protection in (Masked(), TwoServer(), Plain()):
        for algorithm in (FedAvg(), SPLITS, HardenedFLIC(rounds_before=1, every=1)):
            assert all(c.kin(protection, algorithm) for c in CLAIMS if c.applies(protection, algorithm))


# --- remedies ---------------------------------------------------------------------------------------------------------------


def test_where_an_attack_fails_in_clear_no_number_of_victims_is_asked_for():
    leak = leakage(np.full(10, 0.3), np.full(10, 0.3), np.full(10, 0.4), np.random.default_rng(0))
    assert leak.needed == 0
    words = remedy(leak, 2)
    assert "data or training on which the attack works, and not more victims" in words
    assert judged(claim, leak).witness == words


@pytest.mark.parametrize("value", [0.0, 0.04, 0.16])
def test_where_there_are_too_few_victims_their_number_decides(value):
    """As many victims as it says, of whom as much is found, are decided about."""
    rng = np.random.default_rng(3)

    def leak(count):
        here = np.clip(value + 0.2 * rng.standard_normal(count), -0.4, 0.3) if value else np.zeros(count)
        here += (value - here.mean()) if value else 0
        return leakage(here, np.zeros(count), np.ones(count), np.random.default_rng(0), claim.bound)

    first = leak(8)
    assert judged(claim, first).verdict == "inconclusive"
    assert f"about {first.needed} victims would tell, and 8 were tried" in remedy(first, 2)
    assert judged(claim, leak(3 * first.needed)).verdict == ("refuted" if value > claim.bound else "not refuted")


def test_the_two_sided_interval_is_two_sided_where_nothing_was_found():
    """Clopper and Pearson (1934): 0 of 24 is below 1 - .025^(1/24) with 97.5 %, and below 1 - .05^(1/24) with 95 %."""
    leak = leakage(np.zeros(24), np.zeros(24), np.ones(24), np.random.default_rng(0))
    assert (leak.low, leak.high, leak.upper) == pytest.approx((0, 1 - 0.025 ** (1 / 24), 1 - 0.05 ** (1 / 24)))
    assert leak.needed == fewest_victims(0.1) == 29


def test_a_row_and_its_claim_give_one_remedy():
    first = leakage(np.zeros(4), np.zeros(4), np.ones(4), np.random.default_rng(0), claim.bound)
    assert remedy(first, 1, claim.bound) in judged(claim, first).witness


def test_a_page_of_an_invalid_row_says_the_remedy_and_no_number_of_victims():
    plain = bare("server", "labels", 0.0, valid=False, needed=0) | {"remedy": "it takes other data"}
    assert "inconclusive: it takes other data" in render(found(plain))


def test_a_verdict_has_what_is_claimed_beside_what_was_found():
    page = render(found(row("not refuted", value=0.03)))
    assert '<td class="n" data-of="found at most">0.030</td><td class="n" data-of="claimed at most">0.10</td>' in page


# --- tables -----------------------------------------------------------------------------------------------------------------


def test_an_audit_without_claims_has_no_table_of_them(tmp_path):
    """Before, a notebook showed the heads of a table without a row."""
    for claimed, count in ((bare("server", "labels", 0.1), 1), (row("not refuted"), 2)):
        assert len(tables(found(claimed))) == count
        (tmp_path / "audit.json").write_text(json.dumps(found(claimed)))
        audited = Audited(tmp_path)
        for text in (str(audited), audited._repr_html_()):
            assert ("claims; found at most" in text) == (count == 2)
            assert "what each party could find" in text


def test_rows_of_an_audit_have_the_area_of_what_tells_members_from_others(tmp_path):
    told = {"told": {"here": {"area": {"low": 0.5, "value": 0.625, "high": 0.75}}}}
    rows = (bare("server", "membership", 0.5) | told, bare("server", "labels", 0.1))
    (tmp_path / "audit.json").write_text(json.dumps(found(*rows)))
    assert [(row["experiment"], row["auc"]) for row in Audited(tmp_path).rows] == [("membership", 0.625), ("labels", None)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_of_a_table_is_cut_off(width):
    long = "server and clients 0, 1, 17", "inconsistent models"
    plain = found(
        bare(*long, 0.5) | {"by": "server and client 0"},
        bare("server", "labels", 0.1, valid=False),
        row("not refuted")
        | {"claims": [row("refuted")["claims"][0] | {"claim": "masked.inconsistent-models.server-and-two-clients"}]},
        bare("network", "mine", 0.0) | {"leakage": None, "failed": True, "reason": "failed: ValueError"},
    )
    console = Console(width=width, record=True, file=io.StringIO())
    for table in (measured_table(plain, width), claims_table(plain, width)):
        console.print(table)
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    flat = "".join(text.split())
    assert "failed" in flat
    assert "0.50" in flat
    for wanted in ("everything",) if width >= 100 else ():
        assert wanted in text


def test_a_guess_that_is_far_worse_than_none_is_not_given_in_digits():
    plain = found(bare("server", "counts", -59.3) | {"claims": []})
    leak = plain["rows"][0]["leakage"]
    leak |= {"low": -120.5, "high": -0.001, "here": -48.25}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(measured_table(plain, 120))
    page = render(plain)
    for text in (console.export_text(), page.replace("&lt;", "<")):
        assert "< -1" in text
        assert not any(digits in text for digits in ("-59.3", "-120.5", "-48.2", "-0.00"))
    assert "&lt; -1 [&lt; -1, 0.00]" in page
    assert "Below 0 is a guess that is worse" in page


@pytest.mark.long
@pytest.mark.trains
def test_a_command_in_a_narrow_terminal_cuts_nothing_off(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("cloister.auditing.audited.EXPERIMENTS", (UpdateRecovery(),))
    (tmp_path / "small.py").write_text(f"from {__name__} import small as scenario\n")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "small.py"), "--seeds", "0", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "…" not in done.stdout
    assert done.stdout.startswith("small: ")
    assert "nothing is known of them here: masked." in " ".join(done.stdout.split())


def test_the_numbers_of_the_help_are_those_of_the_budgets():
    how, seeds = HowMuch.__metadata__[0].help, AuditSeeds.__metadata__[0].help
    for budget in (QUICK, FULL):
        words = how.partition(f"{budget.name}: ")[2]
        numbers = (budget.seeds, budget.records, budget.victims, budget.shadows, budget.steps)
        places = [
            words.index(f"{n} {what}")
            for n, what in zip(numbers, ("seeds", "records", "clients", "shadow", "steps"), strict=True)
        ]
        assert places == sorted(places)
        assert f"{budget.seeds} if {budget.name}" in seeds


# --- attacks that fail ------------------------------------------------------------------------------------------------------


def broken(evidence, client, records, rng):
    raise KeyError("no such\nthing")


def leaves(evidence, client, records, rng):
    raise SystemExit(7)


def hangs_up(evidence, client, records, rng):
    return None


def not_finite(evidence, client, records, rng):
    return np.full(evidence.view.public.classes, np.nan)


OWN = tuple(Attack(f.__name__, f, "labels") for f in (broken, leaves, hangs_up, not_finite))


@pytest.mark.long
@pytest.mark.trains
def test_an_attack_that_fails_is_a_row_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr("cloister.auditing.audited.EXPERIMENTS", (UpdateRecovery(),))
    last = Attack("last", lambda evidence, client, records, rng: np.ones(10), "labels")
    plain = audited(small, QUICK, (0,), None, quiet=True, against=(SERVER_ALONE, server_and(0)), further=(*OWN, last))
    by_name = {r["experiment"]: r for r in plain["rows"] if r["observer"] == "server and client 0"}
    for attack in OWN:
        assert by_name[attack.name]["failed"]
        assert by_name[attack.name]["leakage"] is None
        assert by_name[attack.name]["reason"].startswith("failed: ")
        assert "\n" not in by_name[attack.name]["reason"]
    assert by_name["broken"]["reason"].startswith("failed: KeyError at test_audit_words.py:")
    assert by_name["not_finite"]["reason"].startswith("failed: ValueError: not_finite: a guess of labels is finite numbers")
    assert by_name["last"]["leakage"] is not None
    assert not by_name["updates"]["failed"]
    assert "Failed, and tells nothing: broken, hangs_up, leaves, not_finite." in headline(plain)
    assert "test_audit_words.py" in render(plain)


@pytest.mark.long
@pytest.mark.trains
def test_an_attack_that_fails_is_an_exit_code_and_from_python_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr("cloister.auditing.audited.EXPERIMENTS", (UpdateRecovery(),))
    (tmp_path / "mine.py").write_text(
        "from cloister.threats import Attack\nattack = Attack('mine', lambda *_: 1 / 0, 'labels')\n"
    )
    (tmp_path / "small.py").write_text(f"from {__name__} import small as scenario\n")
    asked = ["audit", str(tmp_path / "small.py"), "--attack", str(tmp_path / "mine.py"), "--seeds", "0", "--against", "server"]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert done.exit_code == auditing.FAILED
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["against"] == ["server"]
    assert "ZeroDivisionError at mine.py:2" in done.output
    again = cloister.audit(small, tmp_path / "again", seeds=[0], attacks=OWN[:1], against="server+client:1", quiet=True)
    assert [line["observer"] for line in again.summary["failed"]] == ["server and client 1"]
    assert "KeyError" in again.summary["failed"][0]["reason"]
    assert {r["observer"] for r in again.rows} == {"server and client 1"}


def test_where_an_error_was_is_of_the_users_own_file():
    with pytest.raises(ZeroDivisionError) as caught:
        Attack("mine", lambda *_: 1 / 0, "labels").guess(None, 0, None, None)
    assert failure(caught.value).startswith("failed: ZeroDivisionError at test_audit_words.py:")
    with pytest.raises(ValueError) as caught:
        Attack("mine", lambda *_: np.zeros((2, 3)) @ np.zeros((2, 3)) or json.loads("{"), "labels").guess(None, 0, None, None)
    assert failure(caught.value).startswith("failed: ValueError at test_audit_words.py:")
    with pytest.raises(ValueError) as caught:
        Attack("mine", lambda *_: json.loads("{"), "labels").guess(None, 0, None, None)
    assert failure(caught.value).startswith("failed: JSONDecodeError at test_audit_words.py:")
    assert failure(ValueError("")) == "failed: ValueError"
    assert len(failure(ValueError("x" * 10_000))) < 300


# --- budgets that run out ---------------------------------------------------------------------------------------------------

DP = replace(small.training, privacy=RecordPrivacy(clip=1.0, multiplier=30.0, budget=0.25, delta=1e-5, records=100))


@pytest.mark.long
@pytest.mark.trains
def test_a_budget_of_records_that_ran_out_is_in_the_first_words(tmp_path):
    private = replace(small, training=DP, protection=Plain(), rounds=4)
    recorder = Recorder(private, None)
    list(recorder.rounds())
    first = min(recorder.recorded.ran_out.values())
    assert recorder.recorded.ran_out.keys() == set(range(6))
    assert 0 < first < 4
    words = headline(found(row("not refuted"), ran_out={"3": dict(recorder.recorded.ran_out)}))
    assert words.startswith(f"In the run of seed 3 the privacy budget of 6 clients ran out, first in round {first}")
    result = cloister.run(private, tmp_path / "r", quiet=True)
    assert result.summary["ran_out"] == {"clients": list(range(6)), "round": first}
    page = result.report.read_text()
    assert f"The privacy budget of 6 clients ran out, first in round {first}" in page
    assert "ran out" in str(result)


@pytest.mark.trains
def test_a_budget_of_a_trusted_servers_sums_that_ran_out_is_known():
    noise = CentralNoise(epsilon=5.0, delta=1e-5, rounds=2, l2=1.0)
    recorder = Recorder(replace(small, protection=Plain(noise=noise), rounds=4), None)
    list(recorder.rounds())
    assert set(recorder.recorded.ran_out.values()) == {2}


def test_the_page_about_attacks_has_every_field_that_they_are_given():
    page = Path("docs/how-to/my-attack.md").read_text()
    given = (threats.Evidence, threats.CorruptView, threats.Public, threats.PublishedSum)
    given += (threats.Compared, threats.Answered, threats.Held)
    names = {f.name for kind in given for f in fields(kind) if not f.name.startswith("_")}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert {name for name in ("estimated", "taught") if f"`{name}(" not in page} == set()


@pytest.mark.parametrize(
    ("corrupt", "words"),
    [
        (0, "over 8 clients; from one of them, which takes its own part off, another hides among 7."),
        (2, "over 8 clients; should 2 of them be corrupt"),
    ],
)
def test_among_how_many_an_honest_client_hides_is_said_beside_the_smallest_sum(corrupt, words):
    sums = [{"recipient": "server", "what": "sums", "about": [*range(8)], "words": "", "scalars": 1, "client": None}]
    run = Run("r", {"protection": "Masked"}, {"protection": {"type": "Masked", "corrupt": corrupt}}, [], [], [], [], sums, [], {})
    assert words in privacy_in_words(run)
    assert ("hides among 6" in privacy_in_words(run)) == (corrupt == 2)


def test_of_two_in_a_sum_each_has_the_other_s_update():
    """Before: "Nobody but a client itself saw its update in clear. The smallest sum ... is over 2 clients." """
    sums = [{"recipient": "clients", "what": "sums", "about": [0, 1], "words": "", "scalars": 1, "client": None}]
    run = Run("r", {"protection": "Masked"}, {"protection": {"type": "Masked", "corrupt": 0}}, [], [], [], [], sums, [], {})
    assert "over 2 clients; each of the two takes its own part off, and has the other's update." in privacy_in_words(run)
    own = replace(run, answers=[{**sums[0], "what": "personal sums", "client": 0, "about": [0, 1, 2]}])
    assert "over 2 clients." in privacy_in_words(own), "who it is for is none of the two"


@pytest.mark.trains
def test_a_result_says_both(tmp_path):
    privacy = cloister.run(replace(small, protection=Masked(corrupt=2), rounds=1), tmp_path / "r", quiet=True).privacy
    assert (privacy["smallest_sum"], privacy["hides_among"]) == (6, 4)


@pytest.mark.trains
def test_a_ledger_of_records_is_counted_in_clients(tmp_path):
    """A client has one ledger for all of its records: a report that counts six ledgers counts clients."""
    private = replace(small, training=replace(DP, privacy=replace(DP.privacy, budget=9.0)), protection=Plain(), rounds=1)
    page = cloister.run(private, tmp_path / "r", quiet=True).report.read_text()
    table = page.partition('aria-label="Epsilon spent"')[2].partition("</table>")[0]
    assert "by each of 6 clients" in table
    assert "records</th>" not in table
    assert "any record of it" in table


def test_no_budget_ran_out_where_no_fault_says_so():
    assert ran_out([{"round": 1, "client": 2, "reason": "not finite"}]) == {}
    assert ran_out([{"round": 3, "client": 2, "reason": "past its budget of 1"}]) == {"clients": [2], "round": 3}


def test_an_epsilon_that_is_promised_is_said_not_to_be_audited() -> None:
    plain = described(load("examples/quickstart.py"))
    noisy = {**plain, "training": {**plain["training"], "privacy": {"type": "RecordPrivacy", "budget": 8.0}}}
    assert not [line for line in notes({"rows": [], "scenario": plain}) if "self-test" in line]
    assert [line for line in notes({"rows": [], "scenario": noisy}) if "self-test" in line]


def with_records(observer, read, alone=0):
    """A row of images, in which so many records of client 3 were read, and as many of sums alone."""

    def of(count):
        whose = [{"seed": 0, "client": 3, "read": count}] * (count > 0)
        return {"read": count, "of": 240, "clients": len(whose), "victims": 2, "whose": whose}

    records = {"here": of(read), "sums alone": of(alone), "everything": of(40)}
    return bare(observer, "images", 0.0, valid=False) | {"records": records, "anchor": "sums alone"}


def test_a_record_that_was_read_is_told_though_its_row_can_not_be_judged():
    words = headline(found(with_records("server and client 0", 1)))
    assert "Records were recovered at 30 dB or better: 1 of 240, of client 3 of seed 0, by server and client 0 (images)." in words
    assert "recovered" not in headline(found(with_records("server", 0)))
    assert "recovered" not in headline(found(with_records("server", 1, alone=1)))
    page = render(found(with_records("server", 2)))
    assert "here 2 of 240 records, of 1 of 2 clients" in page
    assert "sums alone 0 of 240 records, of 0 of 2 clients" in page


def test_an_audit_says_which_runs_it_is_of():
    said = {"commit": "a" * 40, "data_sha256": {"0": "b" * 64, "1": "b" * 64}, "seeds": [0, 1]}
    seen = {"folder": "runs/x", "sha256sums": "c" * 64, "commit": "d" * 40, "data_sha256": "b" * 64}
    (line,) = notes(found(**said, recorded_in={"0": seen}))
    assert line == (
        f"audited: seed 0 as recorded in runs/x (sha256 of its SHA256SUMS {'c' * 16}..., commit {'d' * 16}), seed 1 played anew;"
        f" by commit {'a' * 16}; data_sha256 of the records as clients have them {'b' * 16}..."
    )
    assert line[1:] in render(found(**said, recorded_in={"0": seen}))
    assert notes(found()) == []


def test_the_tile_of_the_server_alone_names_what_could_not_be_judged():
    page = render(found(bare("server", "updates", 0.0), bare("server", "labels", 0.0, valid=False)))
    assert "Of 1 of 2 things sought; labels could not be judged" in page
    assert "could not be judged" not in render(found(bare("server", "updates", 0.0)))


def test_an_audit_of_a_run_with_epsilon_says_it_with_delta_unit_and_adjacency():
    of = {"epsilon_worst": 7.123, "delta": 1e-5, "adjacency": "replace", "budget": 8.0}
    noisy = {"training": {"privacy": {"type": "RecordPrivacy"}}}
    lines = notes(found(scenario=noisy, privacy={"0": {"record": of}}))
    assert lines[0] == ("the run of seed 0 promises epsilon 7.13 at delta 1e-05 for any record, adjacency: replace (budget 8.0)")
    assert "on examples of its own, not on this run" in lines[1]
    assert lines[2] == "what attacks find in clear is found without the protection, and without the noise of training too"
    assert notes(found()) == []


def test_the_budget_is_said_in_words_and_seeds_once():
    page = render(found(budget=asdict(QUICK), seeds=[3]))
    how = page.partition("How it was done")[2].partition("<details>")[0]
    assert how.count("seeds") == 1
    assert all(words in how for words in ("seeds of the runs", "shadow models", ">16<", ">400<"))
    assert {f.name for f in fields(QUICK)} == {"name", "seeds", *BUDGET_WORDS}
    assert not any(f">{name}<" in how for name in BUDGET_WORDS)


def test_a_self_test_takes_no_word_about_a_run():
    for words in (["x.py"], ["--seeds", "1"], ["--set", "rounds=1"], ["--out", "o"], ["--data", "d"], ["--against", "server"]):
        vain = CliRunner().invoke(app, ["audit", "--self-test", *words])
        name = words[0] if len(words) > 1 else "FILE"
        assert str(vain.exception) == f"--self-test tries examples of its own, and takes no {name}"
    vain = CliRunner().invoke(app, ["audit", "--self-test", "--mechanism", "no such"])
    assert "there is no mechanism 'no such'; there are " in str(vain.exception)
    vain = CliRunner().invoke(app, ["audit", "x.py", "--mechanism", "DP-SGD"])
    assert "--mechanism is of --self-test" in str(vain.exception)


def test_what_was_found_is_told_from_what_may_be_found_with_so_few_victims():
    """Of 12 victims nothing was found: one in five might be read all the same."""
    none, all_ = np.zeros(12), np.ones(12)
    nothing = leakage(none, none, all_, np.random.default_rng(0))
    words = judged(replace(claim, bound=0.1), nothing).witness
    assert words.startswith("0.000 was found, which at 95 % one-sided may be up to 0.221, where at most 0.10 is claimed: about ")
    page = render(found(bare("server", "updates", -0.001, low=-0.001, upper=0.22, valid=True)))
    most = "at most, at 95 % one-sided, of updates, where 0.00 was found (two-sided 95 % interval 0.00 to 0.00); 1 is everything"
    assert most in page
    assert "at 95 %, one-sided; intervals below are two-sided" in render(found(row("not refuted", value=0.0)))
    assert not any(words in page for words in ('"-0.00,', ">-0.00 [", "[-0.00,"))
    assert "...." not in render(found(commit="a" * 40, data_sha256={"0": "b" * 64}))


def test_claims_that_stand_are_closed_under_one_line() -> None:
    page = environment(Path(report.__file__).parent).get_template("audit.html.j2")
    claim = {
        "verdict": "refuted",
        "observer": "server",
        "side_information": "x",
        "statement": "s",
        "claim": "c",
        "whose": "Cloister",
    }
    claim |= {"upper": 0.5, "bound": 0.1, "experiment": "labels", "witness": "w"}
    of = [claim | {"stands": False}, *[claim | {"verdict": "not refuted", "stands": True}] * 12]
    empty = dict.fromkeys(("notes", "observers", "tiles", "budget", "scenario", "machine", "pictures", "meters", "rocs"), ())
    text = page.render(empty, claims=of, title="t", kind="audit", verdict="v", few=True, histograms=(), untried=())
    first, _, rest = text.partition("<details><summary>The rest: 12 claims not refuted</summary>")
    assert (first.count('data-of="because"'), rest.partition("</details>")[0].count('data-of="because"')) == (1, 12)


def test_the_gravest_leak_is_named_first_however_much_of_others_is_found():
    """Before: the three largest alone, and single clients' updates were behind "1 more"."""
    of = {"property": 0.9, "clusters": 0.8, "counts": 0.7, "updates": 0.3}
    words = headline(found(*(bare("server", name, value) for name, value in of.items())))
    assert "server can tell single clients' updates (30 %), a property of a client's data (90 %)" in words


def test_verdicts_on_claims_are_told_apart_by_more_than_a_word():
    """Before: on a phone refuted and inconclusive had one look; each has a class with a frame and a ground of its own."""
    page = render(found(row("refuted"), row("inconclusive")))
    assert '<span class="judged refuted">refuted</span>' in page
    assert '<span class="judged inconclusive">inconclusive</span>' in page
    styles = [page.partition(f".{name} {{")[2].partition("}")[0] for name in ("refuted", "inconclusive")]
    assert "background:" in styles[0]
    assert "border-style: dashed" in styles[1]


def test_under_encrypted_the_server_with_any_one_client_is_named_whoever_was_tried():
    assert any(
        "the server and any one client together open every update" in line for line in notes(found(protection="Encrypted()"))
    )
    assert not any("any one client together" in line for line in notes(found(protection="Masked()")))


def test_the_same_clients_in_several_runs_are_no_others() -> None:
    """A bound that three runs of ten own clients gave was read as one of thirty clients."""

    def said(partition: str, *seeds: int) -> bool:
        lines = notes({"rows": [], "scenario": {"partition": {"type": partition}}, "seeds": list(seeds)})
        return any("each client counts as a victim once a run" in line for line in lines)

    assert said("Natural", 0, 1, 2)
    assert not said("Natural", 0)
    assert not said("Dirichlet", 0, 1, 2)


def test_of_whom_most_is_found_is_named_beside_the_mean() -> None:
    """The mean alone stood there, and an opinion on each participant needs the worst: of what there is to find of that one."""
    leak = {"value": 0.15, "low": 0.12, "high": 0.18, "exposed": [], "victims": 40, "aggregate": 0.3, "plain": 0.9}
    several = [("server and client 0", [("updates", leak)])]

    def said(value: float, anchor: float = 0.1, **more: float) -> str:
        worst = {"client": 9, "name": "Jever", "seed": 1, "value": value, "anchor": anchor, "everything": 0.9} | more
        (words,) = _leaks_in_words(several, {}, {("server and client 0", "updates"): worst})
        return words

    start = "server and client 0 can tell single clients' updates (15 %"
    assert said(0.3) == f"{start}; of client 9 (Jever) of seed 1 25 %)"
    assert said(0.9) == f"{start}; of client 9 (Jever) of seed 1 100 %)", "of whom there is more to find than in the mean"
    assert said(0.25) == f"{start})", "no further than the mean says"
    assert said(0.3, everything=0.0) == f"{start})", "an audit of before does not say what clear tells of it"
    other = {"client": 9, "name": "Jever", "seed": 1, "value": 0.9, "anchor": 0.1, "everything": 0.9}
    (words,) = _leaks_in_words([("server", [("samples", leak)])], {}, {("server", "samples"): other})
    assert "Jever" not in words, "values of other things are no shares of a victim's"


def test_what_one_client_finds_by_itself_needs_no_coalition() -> None:
    """ "server and client 0 can tell" was read as that it takes both."""
    leak = {"value": 0.4, "low": 0.35, "high": 0.45, "exposed": [], "victims": 40}
    several = [("server and client 0", [("membership", leak)])]
    (alone,) = _leaks_in_words(several, {("server and client 0", "membership"): "client 0 (Ruhr)"})
    assert alone == "server and client 0 can tell whether a record was trained on (40 %; client 0 (Ruhr) does by itself)"
    (both,) = _leaks_in_words(several, {})
    assert both == "server and client 0 can tell whether a record was trained on (40 %)"


def test_what_so_few_victims_leave_open_is_undecided_and_no_leak() -> None:
    """With noise a page began with "a property (80 %, 4 % to 170 %)", and without with nothing of it, at -16 to 115 %."""

    def said(value: float, low: float, high: float) -> str:
        leak = {"here": value, "aggregate": 0.0, "plain": 1.0, "low": low, "value": value, "high": high, "upper": high,
                "victims": 36, "needed": 43, "valid": True, "exposed": []}  # fmt: skip
        one = row("inconclusive") | {"leakage": leak, "experiment": "property", "claims": []}
        return headline(found(one))

    for wide in ((0.8, 0.04, 1.7), (0.4, -0.16, 1.15)):
        assert "Undecided, as so few victims may show it by chance: server: a property of a client's data" in said(*wide)
        assert "can tell a property" not in said(*wide)
    assert "server can tell a property of a client's data (80 %)" in said(0.8, 0.75, 0.85)
    assert "Undecided" not in said(0.8, 0.75, 0.85)
    assert "property" not in said(0.05, -0.5, 0.6)


def test_what_so_few_runs_leave_open_is_said_of_runs() -> None:
    """ "so few victims": "(100 %, 100 % to 100 %)", beside an area of [0.00, 1.00], where runs are what there are too few of."""
    one = bare("server", "property", 1.0, low=0.0, high=1.0, few_runs=True)
    one |= {"told": {"here": {"area": {"value": 1.0, "low": 0.0, "high": 1.0}}}}
    words = headline(found(one, bare("client 0", "labels", 0.9, low=-0.2, high=1.5)))
    assert (
        "Undecided, as so few runs may show it by chance: server: a property of a client's data (100 %, 0 % to 100 %)." in words
    )
    assert "Undecided, as so few victims may show it by chance: client 0: how frequent" in words
