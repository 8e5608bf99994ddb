"""What a search says of points that are no break, of the numbers of attackers that were played, and of whose figures it shows."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from cloister.attacking.asked import _as_given
from cloister.attacking.data import Search, curve, found_words
from cloister.attacking.play import _source
from cloister.attacking.points import figures_words, markdown, no_break, played_by, point_rows, unplayed_words
from cloister.attacking.report import charts, render, tiles
from cloister.attacking.result import Attacked
from cloister.attacking.tables import as_given_words, points_table, search_json, verdict
from cloister.attacking.words import AROUND as WORDS
from cloister.attacking.words import figure, said
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.runs.diverged import one_label
from cloister.threat_models.knowledge import Level
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.found import Point, key_of
from cloister.threat_models.search.play import Harm, Try
from cloister.threat_models.search.space import AROUND, Space
from cloister.threat_models.simple_attacks import MinusGradient

from . import evaluation_sample as sample
from .test_readable_figures import search_of
from .test_search_plan import line


def harm(loss: float) -> Harm:
    return Harm(loss / 0.05, loss, 2 * loss, None, None)


def point(attackers: int, searched: float, *held_out: float) -> Point:
    """One that loses so much on the seed searched, and on each of those held out."""
    numbers: dict[str, Any] = {"attack": "IPM", "IPM.eps": 1 / attackers + searched}
    return Point(numbers, attackers, {0: harm(searched)}, {s: harm(h) for s, h in enumerate(held_out, 1)}, seconds=1.0)


def failing(attackers: int, why: str) -> Point:
    """One that has no result on the seed searched."""
    return replace(point(attackers, 0.9), searched={}, without={0: why})


def search(points: Sequence[Point], cheapest: int | None = None, seeds: Sequence[int] = (0,)) -> Search:
    """A search of these points, of which the cheapest break has so many attackers."""
    told = {"attackers": cheapest, "said": "x", "did": "y", "after_runs": 1, "after_seconds": 1.0, "file": "worst.py"}
    whole = search_of()
    about = {**whole.about, "most": 8, "seeds": list(seeds), "held_out": [1, 2]}
    found = {} if cheapest is None else {"cheapest": told}
    return replace(whole, about=about, points={key_of(p.numbers, p.attackers): p for p in points}, found=found)


# --- points that are no break -----------------------------------------------------------------------------------------


def test_points_with_fewer_attackers_that_did_not_hold_are_in_the_verdict() -> None:
    """Before: "With fewer, none was found in 4 points", where three lost 40 points and more on the seed searched."""
    best, open_ = point(3, 0.5, 0.5, 0.5), point(2, 0.3)
    refuted = [point(1, 0.4, 0.02), point(2, 0.45, 0.5, 0.01)]
    words = verdict(search([best, open_, *refuted, point(1, 0.01)], cheapest=3))
    assert (
        "With fewer (1 and 2), 4 points were tried, of which 1 broke the seed searched and could not be tried on all others"
        in words
    )
    assert "; 2 broke the seed searched and did not hold on all others. The worst of the last: loses 32.0 points" in words
    assert words.endswith("(the client that loses most, in any seed, 100.0) by 2.")
    alone = verdict(search([best, *refuted], cheapest=3))
    assert (
        "With fewer (1 and 2), 2 points were tried, of which 2 broke the seed searched and did not hold on all others. The worst"
        in alone
    )
    assert verdict(search([best, point(1, 0.01)], cheapest=3)).endswith("With fewer (1), none was found in 1 point.")
    assert "With fewer" not in verdict(search([best], cheapest=3))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (point(2, 0.5, 0.5, 0.5), ""),
        (point(2, 0.5, 0.5, 0.01), "no break, as it does not hold on other seeds"),
        (point(2, 0.5, 0.5), "not known to be a break, as not tried on every seed held out"),
        (point(2, 0.04), "no break"),
    ],
)
def test_the_worst_loss_says_when_it_is_no_break(one: Point, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's tile, and in the docstring of the file that replays it."""
    of = search([one])
    assert no_break(of, one) == words
    (tile,) = [tile for tile in tiles(of) if tile.label == "worst loss"]
    assert tile.detail == f"points of accuracy, by 2 attackers; {words or 'a break'}"
    monkeypatch.setattr("cloister.attacking.play.scenario_of", lambda *_: sample.scenario)
    monkeypatch.setattr("cloister.attacking.play.command_of", lambda *_, **__: "")
    monkeypatch.setattr("cloister.attacking.play.scenario_source", lambda _, about, *__: about)
    given: Any = type("Asked", (), {"seeds": (0,), "data": None})()
    assert (f" This is {words}.\n" in _source(one, given, given, given, None, of)) == bool(words)
    assert ("This is" in _source(one, given, given, given, None, of)) == bool(words)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (point(2, 0.5, 0.5, 0.5), "breaks"),
        (point(2, 0.5), "breaks on the seed searched, others not tried"),
        (point(2, 0.5, 0.5), "breaks on the seed searched and on seed 1, seed 2 not tried"),
        (point(2, 0.5, 0.01), "breaks on the seed searched, not on others"),
        (point(2, 0.5, 0.5, 0.01), "breaks on the seed searched and on seed 1, not on seed 2"),
    ],
)
def test_a_point_says_on_which_of_the_seeds_held_out_it_was_tried(one: Point, words: str) -> None:
    """Before: "others not tried" of one that was tried on one of two, and broke there."""
    assert [row["verdict"] for row in point_rows(search([one]))] == [words]


def test_points_that_did_nothing_are_not_among_the_worst() -> None:
    page = render(search([point(2, 0.5), point(3, 2e-16)]))
    assert "loses 50.0 points" in page
    assert "loses 0.0 points" not in page
    assert "came to a hundredth of a bound" in render(search([point(3, 2e-16)]))


def test_where_fewer_attackers_were_not_tried_the_verdict_says_so() -> None:
    """Before: "Broken by 3 of 8 clients: ...; it holds on every seed", from a budget that had not come to 2."""
    words = verdict(search([point(3, 0.5, 0.5, 0.5)], cheapest=3))
    assert words.endswith(" Fewer (1 to 2) were not tried: a larger budget says more.")
    assert "broken on every seed that was held out (1, 2), too" in words
    assert "not tried: a larger" not in verdict(search([point(1, 0.5, 0.5, 0.5)], cheapest=1))


def test_points_that_broke_the_seed_searched_alone_are_said_in_whole_sentences() -> None:
    """Before: "this does not say that there is none. 1 did there and could not be tried"."""
    words = verdict(search([point(2, 0.3)]))
    assert "there is none. 1 broke the seed searched and could not be tried on all others: a larger budget says more." in words
    assert "2 broke the seed searched, and did not hold on all others." in verdict(search([point(n, 0.4, 0.02) for n in (1, 2)]))
    assert "(the client that loses most: 60.0)" in words


# --- what was played --------------------------------------------------------------------------------------------------


def test_a_verdict_names_the_numbers_of_attackers_that_were_played_and_no_others() -> None:
    """Before: "by 1 to 8 of 8 clients" where the budget was spent on 2."""
    of = search([point(2, 0.01), failing(7, "refused")])
    assert "No break found in 0 runs, 0 CPU seconds, by 2 of 8 clients, at 1 point (1 more could not be played);" in verdict(of)
    assert tiles(of)[0].detail == "by 2 of 8 clients"
    assert played_by(search([point(n, 0.01) for n in (1, 2, 3, 5, 6, 8)])) == "1 to 3, 5, 6 and 8 of 8 clients"
    assert played_by(search([point(n, 0.01) for n in (1, 2)])) == "1 and 2 of 8 clients"
    assert tiles(search([]))[0].detail == "no point was played"


# --- whose figures ----------------------------------------------------------------------------------------------------


def test_runs_of_earlier_searches_in_the_folder_are_said_where_they_pass_the_budget() -> None:
    """Before: "found in 157 runs" under a budget of 100."""
    of = search([point(1, 0.01)])
    of = replace(of, rows=[line(Try({}, 0, 0), lambda *_: 0.0)] * 3)
    words = "3 runs (those that earlier searches left in the folder among them; the budget was 2), "
    assert words in verdict(replace(of, about=of.about | {"runs": 2}))
    assert "earlier searches" not in verdict(replace(of, about=of.about | {"runs": 3}))


def test_brackets_of_two_seeds_are_not_called_an_interval() -> None:
    """Before: "mean over seeds (95 %)" above both values of two seeds, and above the worst client of any seed."""
    two, three = search([point(2, 0.5, 0.4)]), search([point(2, 0.5, 0.4, 0.3)])
    for of, both, interval in ((two, True, False), (three, False, True), (search([point(2, 0.5)]), False, False)):
        words = figures_words(point_rows(of))
        assert ("of two seeds both (x and y)" in words) == both
        assert ("interval at 95 % (x to y)" in words) == interval
        assert words.endswith("worst client: of any client and seed")
        assert words in str(points_table(of).title)
        assert words in markdown(of, [])
        assert words.replace("'", "&#39;") in render(of)


def test_the_course_of_a_search_is_said_to_be_of_the_seed_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the worst so far drawn above the bound before the run that found it: before, a slope led there."""
    points = [point(2, 0.01), point(2, 0.5)]
    rows = [{"numbers": p.numbers, "attackers": 2, "seed": 0, "cost": {"seconds": 1.0}} for p in points]
    drawn: list[Any] = []
    monkeypatch.setattr("cloister.attacking.report._both", drawn.append)
    for seeds, place in (((0,), "on the seed searched"), ((0, 5), "on any of the seeds searched")):
        (chart,) = charts(replace(search(points, seeds=seeds), rows=rows))
        assert chart["title"].startswith(f"Worst so far {place}, as a multiple")
        assert chart["legend"][-1][0] == "the bound, above which it breaks the defence there"
        (line,) = drawn.pop().thin
        assert [*zip(line.x, line.y, strict=True)] == [(1, pytest.approx(0.2)), (2, pytest.approx(0.2)), (2, 10), (2, 10)]


# --- names in points --------------------------------------------------------------------------------------------------


def test_points_are_said_in_plain_words_and_readable_numbers() -> None:
    """Before: "variant Magnified, Magnified.factor 1e+06, schedule pulses, schedule.start 3"."""
    numbers: dict[str, Any] = {"attack": "IPM", "IPM.eps": 0.5, "variant": "Magnified", "Magnified.factor": 1e6, "which": "most"}
    numbers |= {"schedule": "pulses", "schedule.start": 3, "schedule.period": 5, "schedule.duty": 0.5, "layers": "one"}
    numbers |= {"InLayer.layer": "first", "InLayer.layer?": True, "samples": "more", "samples.factor": 34.906}
    assert said(numbers) == (
        "IPM(eps 0.5), what each sends times 1,000,000, in the first layer alone, honest work in all others,"
        " in 2 of every 5 rounds, from round 3 on, each claiming 34.9 times its examples, by the clients with the most examples"
    )
    nested = {"attack": "GradientAscent", "boost": "Scaled", "Scaled.factor": 2.5, "data": "LabelFlip", "LabelFlip.share": 0.25}
    assert said(nested) == "GradientAscent, poisoned work times 2.5, on data poisoned by LabelFlip(share 0.25)"
    assert said({"attack": "Mine", "Mine.scale": 2, "strange": 1e-9}) == "Mine(scale 2), strange 1e-09"


@pytest.mark.parametrize(
    ("value", "words"), [(1e6, "1,000,000"), (0.000321, "0.000321"), (1234.5, "1,230"), (7, "7"), (0.0, "0")]
)
def test_numbers_are_said_as_people_write_them(value: float, words: str) -> None:
    assert figure(value) == words


@pytest.mark.parametrize("kind", AROUND)
def test_each_attack_about_another_one_has_its_words(kind: type) -> None:
    assert kind.__name__ in WORDS


def test_no_point_of_a_space_is_said_by_the_names_of_its_numbers() -> None:
    space = Space(replace(sample.scenario, algorithm=HardenedFLIC(rounds_before=1, every=2, by_samples=True)), distinct=True)
    for form in usual_forms(space):
        words = said(form)
        assert not re.search(r"[a-z]\.[a-z]|variant|layers one|schedule|samples more", words), words


def test_the_legend_of_a_searchs_picture_is_beside_its_line_and_not_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    of = search([point(1, 0.01), point(2, 0.2)])
    monkeypatch.setattr("cloister.attacking.result.read_search", lambda folder: of)
    figure = Attacked(Path()).plot()
    assert figure.axes[0].get_legend() is None
    assert len(figure.legends) == 1
    assert figure.axes[0].get_title() == f"{of.about['defence']} attacked, on {of.about['name']}"


@pytest.mark.parametrize(("accuracy", "chance"), [(0.106, True), (0.5, False)])
def test_of_a_defence_that_learned_nothing_no_attack_says_anything(accuracy: float, chance: bool) -> None:
    """Before: "No break found", and each point "holds", with a learning rate of 1e-7."""
    clean = {
        "attackers": 0,
        "seed": 0,
        "status": "done",
        "accuracy": accuracy,
        "classes": 10,
        "cost": {"seconds": 1.0, "beside": 0.0},
    }
    found = replace(search([point(1, 0.001), point(2, 0.0)]), rows=[clean])
    words = verdict(found)
    assert ("learned nothing without attack (10.6 %, as chance is 10.0 %): there was nothing to take" in words) == chance
    assert ("No break found" in words) != chance
    assert {row["verdict"] for row in point_rows(found)} == {"nothing to take" if chance else "no break"}
    assert chance or not replace(found, rows=[{**clean, "accuracy": 0.1, "classes": None}]).nothing  # a folder of before


def test_what_is_taken_of_the_accuracy_without_attack_is_said_where_the_missing_data_hide_it() -> None:
    """Before: "the worst loses -29.8 points", of a rule that takes small steps once a client is missing."""
    at = search([point(1, -0.3), point(2, 0.01)])
    cost = {"cost": {"seconds": 1.0, "beside": 0.0}, "status": "done", "seed": 0, "classes": 10}
    clean = {"attackers": 0, "numbers": {}, "accuracy": 0.9, "of": dict.fromkeys("012", 0.9)} | cost
    attacked = {"attackers": 1, "numbers": point(1, -0.3).numbers, "accuracy": 0.55, "of": dict.fromkeys("12", 0.55)} | cost
    words = verdict(replace(at, rows=[clean, attacked]))
    assert "Of the accuracy without attack 35.0 points were taken, by 1, IPM(eps 0.7); of that without these" in words
    little = verdict(replace(at, rows=[clean, attacked | {"of": dict.fromkeys("12", 0.88), "accuracy": 0.88}]))
    assert "Of the accuracy without attack" not in little


def test_points_that_ended_in_an_error_are_in_the_verdict() -> None:
    """Before: "No break found", of a rule that divides by the length of an update, with a client that sends zeros."""
    fails = replace(failing(1, "mine (a.py, line 3) returned numbers that are not finite"), erred=True)
    words = verdict(search([fails, point(2, 0.01)]))
    assert (
        "1 point ended in an error, first IPM(eps 1.9) by 1: mine (a.py, line 3) returned numbers that are not finite." in words
    )
    assert "an attacker stops the run with it" in words
    assert "in an error" not in verdict(search([replace(fails, erred=False), point(2, 0.01)])), "a refusal is none"


def test_who_says_a_frequent_label_always_has_learned_nothing() -> None:
    """Before: "No break found in 24 runs" of two labels, where one is that of nine in ten records and was always said."""
    clean = {
        "attackers": 0,
        "seed": 0,
        "status": "done",
        "accuracy": 0.895,
        "classes": 2,
        "cost": {"seconds": 1.0, "beside": 0.0},
    }
    at = replace(search([point(1, 0.001)]), rows=[clean | {"one_label": 0.895}])
    words = "learned nothing without attack (89.5 %, as always saying the most frequent label is 89.5 %)"
    assert f"{words}: there was nothing to take" in verdict(at)
    assert "No break found" not in verdict(at)
    assert tiles(at)[0].value == found_words(curve(at)[0]) == "nothing to take"
    for better in (clean | {"one_label": 0.5}, clean):
        assert "No break found" in verdict(replace(at, rows=[better]))
    broken = replace(search([point(1, 0.5, 0.5, 0.5)], cheapest=1), rows=at.rows)
    assert verdict(broken).endswith(f" Yet y {words}.")


def test_one_label_is_worth_what_it_is_to_clients_and_not_to_records() -> None:
    def client(i: int, *labels: int) -> Client:
        y = torch.tensor(labels)
        return Client(i, Examples(torch.zeros(len(y), 1), y), Examples(torch.zeros(len(y), 1), y))

    clients = [client(0, *[0] * 8), client(1, 1, 2), client(2, 1, -1)]
    assert one_label(Population({c.id: c for c in clients}, {}, 3, (1,))) == pytest.approx(0.5)  # of 1, though 0 is in 8 of 11


def test_attacks_that_no_budget_was_left_for_are_named_and_counted() -> None:
    found = search([point(2, 0.01)])
    names = [f"A{k}" for k in range(8)]
    clean = {"attackers": 0, "seed": 0, "status": "failed", "cost": {"seconds": 1.0, "beside": 0.0}}
    about = {**found.about, "attacks": [*map(str, found.played[0].numbers.values()), *names]}
    left = replace(found, about=about, rows=[clean] * about["runs"])
    assert unplayed_words(left) == " Not played, for want of budget: A0, A1, A2, A3, A4, A5 and 2 more."
    assert unplayed_words(left) in verdict(left)
    assert unplayed_words(replace(left, rows=[clean])).startswith(" Not played yet: A0")
    tried = replace(failing(1, "it could not"), numbers={"attack": "A0"})  # which is said by itself
    assert "A0" not in unplayed_words(replace(left, points={**left.points, key_of(tried.numbers, 1): tried}))
    assert unplayed_words(replace(found, about={**found.about, "attacks": []})) == ""


def test_what_got_no_run_is_said_beside_a_break_too() -> None:
    """Before: one's own attack was named, was played 0 times of 14, and neither headline nor report said so."""
    clean = {"attackers": 0, "seed": 0, "status": "failed", "cost": {"seconds": 1.0, "beside": 0.0}}
    broken = search([point(2, 0.5, 0.5, 0.5)], cheapest=2)
    broken = replace(broken, about={**broken.about, "attacks": ["IPM", "Drift"]})
    words = "Not played, as a break was found before: Drift."
    assert verdict(broken).endswith(words)
    assert words in render(broken).split("What was tried")[1]
    assert search_json(broken)["untried"] == ["Drift"]
    spent = replace(broken, rows=[clean] * broken.about["runs"])
    assert verdict(spent).endswith("Not played, for want of budget: Drift.")
    assert "Not played yet: Drift." in verdict(replace(broken, found={}))


class Hug:
    needs = Level.OMNISCIENT

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, known: Any) -> Any:
        return known.seen


def hugging(known: Any, scale: float = 1.0) -> Any:
    return scale * known.seen


def test_numbers_that_an_attack_was_made_with_and_are_not_searched_are_said() -> None:
    """A plain class was played at its one scale alone, and the report said that 29 points found no break."""
    assert _as_given(Hug(1.5)) == _as_given(partial(hugging, scale=1.5)) == "scale=1.5"
    assert _as_given(MinusGradient(2.0)) == _as_given(Hug) == _as_given(hugging) == ""
    found = search([point(2, 0.01)])
    told = replace(found, about={**found.about, "as_given": {"Hug": "scale=1.5"}})
    assert as_given_words(told).startswith(
        "Played as given, and not varied: Hug with scale=1.5. Fields of a dataclass are searched"
    )
    assert as_given_words(found) == ""


@pytest.mark.parametrize(
    ("built_for", "words"),
    [
        (3, "Broken by 4 of 9 clients (beyond the 3 in a round that it is built for)"),
        (4, "Broken by 4 of 9 clients (it is built for 4 in a round)"),
        (None, "Broken by 4 of 9 clients: "),
    ],
)
def test_a_break_says_for_how_many_attackers_the_defence_is_built(built_for: int | None, words: str) -> None:
    """Before: a rule with f=3 was "Broken by 4 of 10 clients", and nothing said that it promises nothing there."""
    found = search([point(4, 0.4, 0.4, 0.4)], cheapest=4)
    stopped = replace(found, found={})
    for one in (found, stopped):
        about = {**one.about, "clients": 9, "built_for": built_for}
        assert verdict(replace(one, about=about)).startswith(words)
        drawn = verdict(replace(one, about={**about, "in_a_round": 5, "built_for": 2}))
        assert drawn.startswith("Broken by 4 of 9 clients (it is built for 2 of the 5 that are drawn in a round)")


def test_what_a_point_did_where_it_was_searched_is_told_though_it_did_not_hold() -> None:
    """Before: "The worst: loses 3.9 points", of two seeds, where another took 5.2 on the one that both were played on."""
    refuted, other = point(3, 0.052, 0.01), point(3, 0.039, 0.039)
    words = verdict(search([refuted, other, point(2, 0.01)]))
    assert "The worst, each in the mean of the seeds that it was played on: loses 3.9 points" in words
    assert "On the seed searched alone IPM" in words
    assert "by 3 loses 5.2 points of accuracy (the client that loses most: 10.4)" in words
    assert "; on all that it was played on loses 3.1 points of accuracy" in words
    alone = verdict(search([other, point(2, 0.01)]))
    assert "alone" not in alone
    assert "The worst: loses" in verdict(search([point(2, 0.01)]))


def test_a_point_without_a_result_on_another_seed_did_not_fail_to_hold_there() -> None:
    """Before: "did not hold on others", and what it took was told of none: 75 points for 82."""
    cut = replace(point(2, 0.6, 0.6), without={2: "RuntimeError: too large"}, erred=True)
    words = verdict(search([cut, point(2, 0.002)]))
    assert "1 broke the seed searched, and had no result on another (RuntimeError: too large)." in words
    assert "did not hold" not in words
    assert "The worst, each in the mean of the seeds that it was played on: loses 60.0 points" in words
    found = search([cut])
    assert no_break(found, cut) == "not known to be a break, as it has no result on seed 2"
    (row,) = point_rows(found)
    assert row["verdict"] == "breaks on the seed searched and on seed 1, no result on seed 2"
    assert row["reason"] == "RuntimeError: too large"
    assert [found_words(of) for of in curve(found)] == ["unconfirmed"]
    weaker = verdict(search([point(3, 0.5, 0.5, 0.5), cut], cheapest=3))
    assert "of which 1 broke the seed searched and had no result on another." in weaker


def test_what_holds_on_one_of_two_others_is_not_said_to_hold_on_none() -> None:
    words = verdict(search([point(2, 0.3, 0.2, 0.04)]))
    assert "1 broke the seed searched, and did not hold on all others." in words
