"""The report of a run folder: what it says, that nothing in the folder can break out of it, and that a browser shows it whole."""

import base64
import io
import json
import math
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from cloister.protocol.core.errors import OF_TRAINING
from cloister.report_command import _of_client
from cloister.reporting.byte_words import byte_words
from cloister.reporting.curves import NARROW, WIDE, Chart, Line, draw_curves
from cloister.reporting.gaps import missing_answers, other_privacy
from cloister.reporting.headline import comparisons, rejected_in_words
from cloister.reporting.matrix_picture import MATRIX_PIXELS, draw_matrix
from cloister.reporting.of_client import of_client
from cloister.reporting.panels import cluster_lines, why_no_split
from cloister.reporting.report import read_run, write_report
from cloister.reporting.run_data import scores
from cloister.reporting.run_tiles import tiles
from cloister.reporting.tree_drawing import draw_tree
from cloister.tables_out import print_table

from .run_folder_sample import SAMPLES, USUAL, Sample, write_sample

pytestmark = pytest.mark.sweeps

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECTIONS = ["accuracy", "similarity", "grouping", "norms", "learned", "repeat"]
LINES = ["metrics.jsonl", "splits.jsonl", "disclosure.jsonl"]
TINY = SAMPLES["tiny"]
HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'>"


class Page(HTMLParser):
    """What the tests ask about a page: elements, ids, addresses and text outside of style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.labels: list[str] = []
        self.words: list[str] = []
        self._mute = False
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._mute = tag in ("style", "script")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "aria-label":
                self.labels.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._mute = False

    def handle_data(self, data: str) -> None:
        if not self._mute:
            self.words.append(data)


def report(folder: Path, sample: Sample) -> tuple[str, Page]:
    text = write_report(write_sample(folder, sample)).read_text(encoding="utf-8")
    return text, Page(text)


def change(folder: Path, name: str, **fields: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def pixels(uri: str) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")).astype(int)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.long
def test_every_kind_of_run_gets_a_whole_page_that_loads_nothing(tmp_path: Path, name: str) -> None:
    text, page = report(tmp_path, SAMPLES[name])
    split = bool((tmp_path / "splits.jsonl").read_text())
    assert {*SECTIONS, *(["tree"] if split else [])} <= set(page.ids)
    assert split or "tree" not in page.ids
    assert ("trouble" in page.ids) == SAMPLES[name].trouble
    assert max(Counter(page.ids).values()) == 1
    assert all(re.match(r"data:|#", address) for address in page.addresses)
    assert "http:" not in text
    assert "https:" not in text
    assert not re.search(r"url\((?!#)|@import", text)
    references = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert references <= set(page.ids)
    assert "nan" not in page.text.lower().split()
    assert "None" not in page.text.split()
    assert len(text) < 2_000_000
    assert [path.name for path in tmp_path.glob("report*")] == ["report.html"]


def test_headline_of_the_usual_run(tmp_path: Path) -> None:
    _, page = report(tmp_path, USUAL)
    summary = json.loads((tmp_path / "summary.json").read_text())
    for key in ("accuracy_mean", "accuracy_worst", "accuracy_before_clustering"):
        assert f"{100 * summary[key]:.1f} %" in page.text
    assert "12 clients ended in 3 clusters after 2 splits. They are exactly the planted groups." in page.text
    assert "groups isolated 3 of 3 3 clusters; ARI 1.00, purity as FLIC defines it 1.00" in page.text
    assert page.text.count("splits in round") == 2
    assert "the inner products of all pairs of updates, after a secret projection 12 936 7.49 kB 12" in page.text
    assert "protection. sketch. rows 256" in page.text  # between the parts a line may break
    assert "--seed 7 --rounds 48" in page.text


def test_every_party_has_its_place_in_what_was_learned(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    disclosed = json.loads((tmp_path / "summary.json").read_text())["disclosed"]
    shares = [{"what": "gram", "words": "inner products of sketches", "scalars": 78, "bytes": 624, "times": 3}]
    change(tmp_path, "summary.json", disclosed={"dealer": [], "second server": shares, **disclosed})
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    order = [page.text.index(f"The {party} ") for party in ("second server", "dealer", "clients")]
    assert order == sorted(order)
    assert page.text.index("What each party learned") < order[0]
    assert "The second server 78 numbers, 624 B" in page.text
    assert "inner products of sketches 78 624 B 3" in page.text
    assert "must not work together with either. Nothing was disclosed to it. The clients" in page.text
    assert "No answer was recorded" not in page.text
    assert "key holder" not in page.text


def test_the_log_tells_two_answers_of_one_kind_apart_and_how_many_clients_they_are_about(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    (tmp_path / "summary.json").unlink()
    entry = {"recipient": "second server", "what": "gram", "scalars": 10, "bytes": 80}
    lines = [
        {**entry, "round": 0, "about": [0, 1, 2, 3], "words": "exact products"},
        {**entry, "round": 1, "about": [0, 1], "words": "exact products"},
        {**entry, "round": 1, "about": [4, 5, 6], "words": "noisy products"},
    ]
    (tmp_path / "disclosure.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "The second server 30 numbers, 240 B" in page.text
    assert "exact products 2\u20134 20 160 B 2" in page.text
    assert "noisy products 3 10 80 B 1" in page.text


@pytest.mark.long
def test_the_same_folder_gives_the_same_bytes_and_matplotlib_keeps_its_settings(tmp_path: Path) -> None:
    settings = dict(mpl.rcParams)
    first, _ = report(tmp_path, USUAL)
    assert write_report(tmp_path).read_text(encoding="utf-8") == first
    assert dict(mpl.rcParams) == settings


@pytest.mark.long
def test_text_from_the_folder_stays_text(tmp_path: Path) -> None:
    write_sample(tmp_path, replace(USUAL, name=HOSTILE, trouble=True))
    plain = Page(write_report(write_sample(tmp_path / "plain", replace(USUAL, trouble=True))).read_text(encoding="utf-8"))
    change(tmp_path, "summary.json", algorithm=HOSTILE, versions={HOSTILE: HOSTILE}, groups={str(i): HOSTILE for i in range(12)})
    change(tmp_path, "summary.json", rejected=[{"round": 1, "client": 0, "reason": HOSTILE}])
    change(tmp_path, "summary.json", disclosed={"server": [{"what": HOSTILE, "words": HOSTILE}], HOSTILE: []})
    change(tmp_path, "scenario.json", **{HOSTILE: {HOSTILE: [HOSTILE]}})
    hostile_name = json.dumps(HOSTILE)[1:-1]
    for name in ("tree.json", "splits.jsonl", "metrics.jsonl"):
        path = tmp_path / name
        path.write_text(path.read_text().replace('"00"', f'"{hostile_name}"'))
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert page.tags["script"] == plain.tags["script"] == 1
    assert page.tags["img"] == 0
    assert not page.handlers
    assert page.text.count("<script>alert(1)</script>") > 10


@pytest.mark.long
def test_clusters_of_the_last_round_are_said_to_have_one_model_still(tmp_path: Path) -> None:
    """A picture forks there by who is in them: nothing was trained since."""
    said = "The last split was in the last round: its clusters have one model still"
    _, page = report(tmp_path, USUAL)
    assert said not in page.text
    path = tmp_path / "splits.jsonl"
    *before, last = (json.loads(line) for line in path.read_text().splitlines())
    at_end = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])["round"]
    path.write_text("".join(json.dumps(line) + "\n" for line in (*before, {**last, "round": at_end})))
    assert said in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


@pytest.mark.long
def test_an_interrupted_run_is_reported_up_to_its_last_whole_round(tmp_path: Path) -> None:
    _, page = report(tmp_path, SAMPLES["cut"])
    assert "Not finished: after round 48, when this page was made, " in page.text
    assert "3 clusters after 2 splits" in page.text
    assert any(label == "Tree with 5 clusters" for label in page.labels)
    assert "the sum of the updates of each cluster 4\u201312 4 294 080" in page.text
    assert "How far all sums together isolate single clients is measured when the run is over" in page.text


def test_a_client_that_says_no_score_is_counted(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    path = tmp_path / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    silent = next(iter(lines[0]["accuracy"]))
    for line in lines:
        line.get("accuracy", {}).pop(silent, None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    change(tmp_path, "summary.json", groups={})
    assert "12 clients ended in 3 clusters" in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "words"), [(1, "has 1 answer, where"), (2, "has 2 answers, where"), (0, "has 0 answers, where")]
)
def test_lines_that_the_log_of_disclosures_has_lost_are_said(tmp_path: Path, left: int, words: str) -> None:
    write_sample(tmp_path, USUAL)
    path = tmp_path / "disclosure.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert missing_answers(read_run(tmp_path)) == ""
    path.write_text("".join(lines[:left]))
    said = missing_answers(read_run(tmp_path))
    assert said.startswith(f"disclosure.jsonl {words} {len(lines):,} were counted when the run ended: the log was changed since")
    assert said in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


def test_a_record_of_privacy_that_is_not_the_runs_is_said(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    of = {"budget": 8.0, "delta": 1e-5, "epsilon_worst": 6.5, "epsilon_mean": 6.5}
    change(tmp_path, "summary.json", privacy={"client": of})
    (tmp_path / "privacy.json").write_text(json.dumps({"client": of | {"clients": {"0": {"epsilon": 6.5}}}}))
    assert other_privacy(read_run(tmp_path)) == ""
    (tmp_path / "privacy.json").write_text(json.dumps({"client": of | {"clients": {"0": {"epsilon": 2.5}}}}))
    assert "one was changed since" in other_privacy(read_run(tmp_path)), "a single client's alone"
    (tmp_path / "privacy.json").write_text(json.dumps({"client": of | {"epsilon_worst": 2.5}}))
    said = other_privacy(read_run(tmp_path))
    assert said.startswith(
        "privacy.json and summary.json say different things of the privacy that was spent; one was changed since"
    )
    assert said in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


def test_an_answer_about_nobody_is_no_comparison(tmp_path: Path) -> None:
    """As where a coordinator ended between the question and the answers: on one page it was told, and nothing was sent."""
    write_sample(tmp_path, USUAL)
    path = tmp_path / "disclosure.jsonl"
    before = comparisons(read_run(tmp_path))
    with path.open("a") as file:
        row = {"round": 1, "recipient": "server", "what": "gram", "about": [], "bytes": 0, "words": "x"}
        file.write(json.dumps(row | {"scalars": 0}) + "\n" + json.dumps(row | {"scalars": 9}) + "\n")
    assert comparisons(read_run(tmp_path)) == before + 1


def test_a_run_without_rounds_says_so(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text('{"name": "early"}')
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "no round was over yet when this page was made" in page.text


@pytest.mark.long
def test_perplexity_is_exp_of_loss_and_the_worst_is_the_highest(tmp_path: Path) -> None:
    _, page = report(tmp_path, SAMPLES["words"])
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])["loss"].values()
    assert f"mean perplexity {math.exp(np.mean(list(last))):.3g}" in page.text
    assert f"worst client {math.exp(max(last)):.3g}" in page.text
    assert "lower is better" in page.text
    assert "%" not in page.text


@pytest.mark.long
def test_a_method_without_clusters_has_no_empty_panels(tmp_path: Path) -> None:
    """Before: "No cluster was split ... recorded no norms", a tree of one box, a table of one row, and no norms once more."""
    folder = write_sample(tmp_path, SAMPLES["unsplit"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for clusters, ids in ((1, {"similarity"}), (2, {"grouping"})):
        for line in lines:
            members = next(iter(line["clusters"].values()))
            line |= {"norms": {}, "clusters": {"0": members} if clusters == 1 else {"0": members[1:], "1": members[:1]}}
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        change(folder, "summary.json", clusters=list(lines[-1]["clusters"].values()), below_floor=[])
        page = Page(write_report(folder).read_text(encoding="utf-8"))
        assert {"similarity", "tree", "grouping", "norms"} & set(page.ids) == ids
        assert (
            "all clients were in one cluster to the end, and nothing is on record by which groups are told apart" in page.text
        ) == (clusters == 1)
        assert "recorded no" not in page.text
        lines = [line | {"clusters": {"0": [i for of in line["clusters"].values() for i in of]}} for line in lines]


def test_clusters_that_were_not_split_begin_where_they_are_measured(tmp_path: Path) -> None:
    """Before: "client 10" was taken for a child of "client 1", and its curve began with a vertical stroke."""
    folder = write_sample(tmp_path, SAMPLES["unsplit"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines = [line | {"clusters": {"client 1": [1, 3], "client 10": [0, 2]}} for line in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = read_run(folder)
    curves = cluster_lines(run, scores, {})
    assert [curve.name for curve in curves] == ["client 1", "client 10"]
    assert all(len(curve.x) == len(lines) and len({*curve.x}) == len(curve.x) for curve in curves)


@pytest.mark.long
@pytest.mark.parametrize(
    ("chose", "words"), [(False, "shared one model to the end; nothing was split"), (True, "ended in one cluster")]
)
def test_one_cluster_for_several_groups_is_said_to_mix_them(tmp_path: Path, chose: bool, words: str) -> None:
    folder = write_sample(tmp_path, SAMPLES["unsplit"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if chose:  # two slots, one of which nobody chooses any more
        ids = lines[0]["clusters"]["0"]
        lines[0]["clusters"] = {"model 1": ids[:2], "model 2": ids[2:]}
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert f"12 clients {words}. It mixes the 3 planted groups." in page.text


@pytest.mark.long
def test_whom_all_sums_together_isolate_below_the_floor_is_said_where_single_sums_reassure(tmp_path: Path) -> None:
    """As a client that was killed between two sums, or the only one that came late."""
    folder = write_sample(tmp_path, USUAL)
    protection = json.loads((folder / "scenario.json").read_text())["protection"]
    change(folder, "scenario.json", protection={**protection, "floor": 3})
    said = "But all sums together isolate client 5: if its updates never changed, it would hide as in a group of"
    for largest, words in ((1.0, f"{said} 1, where the floor is 3"), (0.5, f"{said} 2, where the floor is 3"), (1 / 3, "")):
        change(folder, "summary.json", account={"leverage": {"largest": largest, "client": 5, "mean": largest}})
        text = Page(write_report(folder).read_text(encoding="utf-8")).text
        assert words in text
        assert bool(words) == ("all sums together" in text)
    change(folder, "summary.json", account={"leverage": {"largest": 1.0, "client": 5, "mean": 1.0}})
    (folder / "exposure.json").write_text(json.dumps({"leverage": {"1": 1 / 3, "4": 0.5, "5": 1.0, "7": 0.2}}))
    text = Page(write_report(folder).read_text(encoding="utf-8")).text
    assert "all sums together isolate client 5, client 4: if their updates never changed, the first of them would hide" in text


def test_one_planted_group_is_not_praised_as_found(tmp_path: Path) -> None:
    folder = write_sample(tmp_path, replace(USUAL, groups=1, splits=0))
    assert "isolated" not in Page(write_report(folder).read_text(encoding="utf-8")).text


@pytest.mark.long
def test_no_split_is_explained_by_the_norms(tmp_path: Path) -> None:
    _, page = report(tmp_path, SAMPLES["unsplit"])
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert "No cluster was split in 48 rounds." in page.text
    assert f"had norm {min(line['norms']['0']['mean'] for line in lines):.3g} (round 48)" in page.text
    assert "algorithm.eps1 = 0.4" in page.text
    few = {"cluster": "00@3", "members": [1], "why": "a sum over 1 client is below the floor of 2"}
    change(tmp_path, "summary.json", below_floor=[{"round": 3, **few}, {"round": 4, **few}])
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "had norm" in page.text  # a sum that came to nothing is not why there was no split
    assert (
        "Sums that were not opened round cluster clients asked for it why 3 to 4 00 1 a sum over 1 client is below" in page.text
    )


def test_updates_of_no_length_are_no_share_of_anything(tmp_path: Path) -> None:
    """With a learning rate of 0 ScaleFree has nothing to measure by, and the page is there all the same."""
    write_sample(tmp_path, SAMPLES["unsplit"])
    path = tmp_path / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    still = [{**line, "norms": {name: dict.fromkeys(of, 0.0) for name, of in line["norms"].items()}} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in still))
    change(tmp_path, "scenario.json", thresholds={"type": "ScaleFree", "eps1": 0.4, "eps2": 0.7})
    assert "the shortest mean update had norm 0 (round" in why_no_split(read_run(tmp_path))


@pytest.mark.long
def test_many_clients_share_one_legend_entry_a_group(tmp_path: Path) -> None:
    text, page = report(tmp_path, SAMPLES["large"])
    assert page.tags["button"] == 4
    assert text.count('class="curve') < 60
    assert "and 111 more" in page.text


@pytest.mark.slow
def test_each_optional_key_may_be_missing_or_null(tmp_path: Path) -> None:
    write_sample(tmp_path, TINY)
    summary = json.loads((tmp_path / "summary.json").read_text())
    keys = list(summary)
    some = [keys, *(keys[start::6] for start in range(6))]
    changed = [({k: v for k, v in summary.items() if k not in out}, out) for out in some]
    changed += [(summary | dict.fromkeys(out, None), out) for out in some]
    for value, what in changed:
        (tmp_path / "summary.json").write_text(json.dumps(value))
        assert set(SECTIONS) <= set(Page(write_report(tmp_path).read_text(encoding="utf-8")).ids), what


@pytest.mark.slow
def test_each_key_of_a_line_may_be_missing(tmp_path: Path) -> None:
    write_sample(tmp_path, replace(USUAL, clients=4, groups=2, rounds=3))
    whole = {name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in LINES}
    for k in range(max(len(lines[0]) for lines in whole.values())):
        gone = set[str]()
        for name, lines in whole.items():
            out = list(lines[0])[k % len(lines[0])]
            gone.add(out)
            kept = [{key: v for key, v in line.items() if key != out} for line in lines]
            (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in kept))
        shown = set(Page(write_report(tmp_path).read_text(encoding="utf-8")).ids)
        assert shown & set(SECTIONS) == set(SECTIONS) - (gone & {"norms"}), k  # a run without norms has no section of them


def test_unplanted_data_is_coloured_by_found_clusters(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    change(tmp_path, "summary.json", groups={}, ari=None, purity=None)
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert page.tags["button"] == 3
    assert "planted group" not in page.text
    assert tiles(read_run(tmp_path), {"0": ["1"]})[2].value == "1"


def test_refuses_what_is_no_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (begins := tmp_path / "begins" / "journal").mkdir(parents=True)
    with pytest.raises(ValueError, match="begins is the folder of a coordinator whose run has not begun"):
        write_report(begins.parent)
    with pytest.raises(ValueError, match="no run folder"):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        write_report(tmp_path / "missing")
    monkeypatch.chdir(tmp_path)  # where `make demo` was played there is one
    with pytest.raises(ValueError, match=f"there is no folder runs; it is looked for in {re.escape(str(tmp_path))}"):
        write_report(Path("runs"))
    write_sample(tmp_path, TINY)
    (tmp_path / "splits.jsonl").write_text("nonsense\n{}\n")
    with pytest.raises(ValueError, match=r"line 1 of .*splits.jsonl"):
        write_report(tmp_path)
    (tmp_path / "splits.jsonl").write_text("")
    (tmp_path / "tree.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tree.json should hold a JSON list"):
        write_report(tmp_path)


def test_matrix_shows_every_value_in_the_shared_scale() -> None:
    values = np.array([[1, -1, np.nan], [-1, 1, 0], [np.nan, 0, 1.0]])
    picture = draw_matrix(values, {"00": 1, "01": 2}, [0, 0, 9])
    light = pixels(picture.light)
    assert picture.edges == pytest.approx([1 / 3])
    assert [(round(a, 3), round(b, 3), hue) for a, b, hue in picture.strips] == [(0, 0.667, 0), (0.667, 0.333, 1)]
    plus, minus, gap, zero = light[0, 0], light[0, 1], light[0, 2], light[1, 2]
    assert plus[2] > plus[0] + 50
    assert minus[0] > minus[2] + 50
    assert np.ptp(gap) == 0
    assert zero.min() > 230
    assert pixels(picture.dark)[1, 2].max() < 60
    wider = draw_matrix(values / 2, {"00": 1, "01": 2}, [0, 0, 0])
    assert (pixels(wider.light)[0, 0] != plus).any()


def test_large_matrices_are_averaged_within_children_only() -> None:
    sizes = {"00": 397, "01": 3}
    child = np.repeat([0, 1], list(sizes.values()))
    values = np.where(child[:, None] == child, 1.0, -1.0)
    picture = draw_matrix(values, sizes, child.tolist())
    light = pixels(picture.light)
    assert len(light) <= MATRIX_PIXELS + 1
    edge = round(picture.edges[0] * len(light))
    assert (light[:edge, :edge] == light[0, 0]).all()
    assert (light[edge:, :edge] == light[-1, 0]).all()
    assert (light[0, 0] != light[-1, 0]).any()


def test_matrix_refuses_sizes_that_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="3 rows"):
        draw_matrix(np.eye(3), {"00": 1, "01": 1}, [0, 0, 0])


@pytest.mark.parametrize("seed", range(5))
def test_boxes_of_a_tree_never_overlap_and_stay_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves, parents = ["0"], {"0": None}
    for _ in range(20):
        name = leaves.pop(rng.integers(len(leaves)))
        leaves += [name + "0", name + "1"]
        parents |= {name + "0": name, name + "1": name}
    drawn = draw_tree(parents, {"0": [(0, 1), (11, 3)]})
    wide, high = drawn.box
    spots = {box.name: (box.x, box.y) for box in drawn.boxes}
    assert spots.keys() == parents.keys()
    assert len(drawn.edges) == 40
    for a, (x, y) in spots.items():
        assert 0 <= x <= drawn.width - wide
        assert 0 <= y <= drawn.height - high
        assert all(abs(x - u) >= wide or abs(y - v) >= high for b, (u, v) in spots.items() if a != b)
        if a not in leaves:
            assert y == (spots[a + "0"][1] + spots[a + "1"][1]) / 2
    assert drawn.boxes[-1].name == "0"
    assert drawn.boxes[-1].parts == ((0, 0.25, 0), (0.25, 0.75, 3))


def test_a_parent_that_is_missing_makes_a_root_and_a_loop_is_left_out() -> None:
    drawn = draw_tree({"a": "gone", "b": "a", "c": "d", "d": "c"}, {})
    assert {box.name for box in drawn.boxes} == {"a", "b"}


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1530, "1.53 kB"), (999_600, "1 MB"), (2.5e15, "2500 TB")]
)
def test_bytes_in_words(count: float, words: str) -> None:
    assert byte_words(count) == words


def test_a_long_name_of_an_axis_is_broken_where_the_drawing_is_narrow() -> None:
    """Before, its ends were cut off on a phone."""
    name = "squared cosine with what sets a client apart from its cluster, over the run"
    line = Line("a", np.arange(3.0), np.arange(3.0))
    texts = {
        width: re.findall(r"<text[^>]*>([^<]*)</text>", draw_curves(Chart(name="c", thick=[line], axis=name), width))
        for width in (WIDE, NARROW)
    }
    assert name in texts[WIDE]
    assert name not in texts[NARROW]
    assert max(map(len, texts[NARROW])) < 50
    assert name in " ".join(texts[NARROW])


def test_curve_names_are_escaped_and_drawn_in_variables() -> None:
    xy = np.arange(3.0)
    svg = draw_curves(Chart(name="t", thick=[Line("<b>$x", xy, xy, 9)], unit="plain"), 400)
    assert "<b>" not in svg
    assert 'class="curve hue1"><title>&lt;b&gt;$x</title>' in svg
    assert "var(--c17)" in svg
    assert "#0102" not in svg


def browse(tmp_path: Path, page: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH to open the report with")
    fixed = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        "--no-first-run",
    ]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, *fixed, profile, *arguments, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)


@pytest.mark.long
def test_a_browser_runs_the_page_without_complaint(tmp_path: Path) -> None:
    page = write_report(write_sample(tmp_path / "run", SAMPLES["trouble"]))
    result = browse(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in result.stderr
    assert set(SECTIONS) | {"trouble"} <= set(Page(result.stdout).ids)


@pytest.mark.long
def test_a_browser_would_complain_of_a_script_that_the_page_does_not_know(tmp_path: Path) -> None:
    page = write_report(write_sample(tmp_path / "run", TINY))
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</main>", "<script>document.title = 'taken over'</script></main>"), encoding="utf-8")
    result = browse(tmp_path, page, "--dump-dom")
    assert "CONSOLE" in result.stderr
    assert "<title>taken over" not in result.stdout


def in_phone(tmp_path: Path, sample: Sample, script: str) -> str:
    """The value of the JavaScript expression `script` beside a phone-wide frame f that shows the report."""
    return on_phone(tmp_path, write_report(write_sample(tmp_path / "run", sample)).read_text(encoding="utf-8"), script)


def on_phone(tmp_path: Path, text: str, script: str, width: int = 360) -> str:
    """The same of any page."""
    code = escape(f"document.title = String({script})")
    phone = f'<iframe id="f" style="width:{width}px;height:700px;border:0" srcdoc="{escape(text)}" onload="{code}"></iframe>'
    outer = tmp_path / "phone.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><title>not loaded</title>{phone}", encoding="utf-8")
    found = re.search(r"<title>(.*?)</title>", browse(tmp_path, outer, "--dump-dom").stdout)
    return found[1] if found else ""


@pytest.mark.parametrize("name", ["usual", "large"])
@pytest.mark.long
def test_nothing_is_wider_than_a_phone(tmp_path: Path, name: str) -> None:
    root = "f.contentDocument.documentElement"
    needed, given = map(int, in_phone(tmp_path, SAMPLES[name], f"{root}.scrollWidth + ' ' + {root}.clientWidth").split())
    assert 320 < given <= 360
    assert needed == given


PAPER = """(() => {
  const page = f.contentDocument, shown = [...page.querySelectorAll(".scroll > *")].filter(part => part.getClientRects().length);
  const wide = shown.filter(part => part.getBoundingClientRect().right > page.documentElement.clientWidth + 1);
  return [shown.length > 2, wide.length].join("; ");
})()"""
"""Whether there are tables at all, and how many are wider than the paper."""


def on_paper(tmp_path: Path, text: str) -> str:
    """What `PAPER` finds on a sheet A4 with its margins, 688 pixels wide."""
    return on_phone(tmp_path, text.replace("@media print", "@media all"), PAPER, 688)


@pytest.mark.long
def test_no_table_of_a_run_is_cut_off_on_paper_and_colours_are_printed(tmp_path: Path) -> None:
    text, _ = report(tmp_path, USUAL)
    assert on_paper(tmp_path, text) == "true; 0"
    assert "print-color-adjust: exact" in text


@pytest.mark.long
def test_tables_of_words_are_lines_on_a_phone_and_others_show_that_there_is_more(tmp_path: Path) -> None:
    script = """(() => {
      const page = f.contentDocument, style = (element, what) => f.contentWindow.getComputedStyle(element, what);
      const rows = [...page.querySelectorAll(".stacks tbody tr")].map(row => style(row).display);
      const label = style(page.querySelector("[data-of='numbers']"), "::before").content;
      const shadows = [...page.querySelectorAll(".scroll")].map(scroll => style(scroll).backgroundImage.split("gradient").length);
      return [...new Set(rows), label, ...new Set(shadows)].join("; ");
    })()"""
    said = in_phone(tmp_path, USUAL, script).replace("&quot;", '"').replace('" "', "")
    assert said == 'block; "numbers: "; 5'


@pytest.mark.long
def test_fields_and_groups_have_room_on_a_phone(tmp_path: Path) -> None:
    """Before, the values of a scenario had a column of a few letters, and the second group was out of sight."""
    script = """(() => {
      const page = f.contentDocument;
      page.querySelectorAll("details").forEach(part => part.open = true);
      const narrow = [...page.querySelectorAll(".fields td")].filter(td => td.clientWidth < 120).length;
      const scrolls = [...page.querySelectorAll(".fields, .groups")].map(table => table.closest(".scroll"));
      const cut = scrolls.filter(scroll => scroll.scrollWidth > scroll.clientWidth).length;
      const count = [page.querySelectorAll(".fields td").length > 5, page.querySelectorAll(".groups").length];
      return [...count, narrow, cut].join("; ");
    })()"""
    assert in_phone(tmp_path, replace(TINY, groups=2), script) == "true; 1; 0; 0"


@pytest.mark.long
def test_pointing_at_a_matrix_tells_the_value_and_the_legend_picks_a_group(tmp_path: Path) -> None:
    script = """(() => {
      const page = f.contentDocument, cells = page.querySelector(".cells"), box = cells.getBoundingClientRect();
      const at = { clientX: box.right - 1, clientY: box.top + 1 };
      cells.dispatchEvent(new f.contentWindow.PointerEvent("pointermove", at));
      page.querySelectorAll("[data-group]")[1].click();
      const kept = page.querySelector(".chart .curve.hue1");
      const opacity = element => f.contentWindow.getComputedStyle(element).opacity;
      return [page.querySelector(".matrix output").textContent, page.body.dataset.only, opacity(kept)].join("; ");
    })()"""
    said = in_phone(tmp_path, USUAL, script)
    split = json.loads((tmp_path / "run" / "splits.jsonl").read_text().splitlines()[0])
    first, last = split["children"]["00"][0], split["children"]["01"][-1]
    value = split["similarity"][split["clients"].index(first)][split["clients"].index(last)]
    assert said == f"clients {first} and {last}: {value:.2f}; 1; 1"


@pytest.mark.long
def test_a_screenshot_shows_colour(tmp_path: Path) -> None:
    page = write_report(write_sample(tmp_path / "run", USUAL))
    shot = tmp_path / "shot.png"
    browse(tmp_path, page, f"--screenshot={shot}", "--window-size=1000,1500", "--hide-scrollbars")
    picture = np.array(Image.open(shot).convert("RGB"))
    assert picture.shape == (1500, 1000, 3)
    for red, green, blue in [(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x92, 0x72)]:
        assert (picture == (red, green, blue)).all(axis=2).sum() > 100


def test_rounds_in_which_a_second_server_did_not_answer_are_named(tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for t in (2, 3, 9):
        lines[t]["unanswered"] = "the second server did not answer as it should"
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = (f"In round {lines[t]['round']}" for t in (2, 9))
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert f"{first} to {lines[3]['round']} the second server did not answer as it should: sums that it was" in page.text
    assert f"{second} the second server did not answer as it should: sums that it was asked for were not made." in page.text


@pytest.mark.parametrize("width", [20, 30, 40, 80, 140])
def test_what_was_learned_of_a_client_is_whole_however_narrow_a_terminal_is(width: int, tmp_path: Path) -> None:
    write_sample(tmp_path, USUAL)
    shown = Console(width=width, record=True, file=io.StringIO())
    print_table(shown, _of_client(tmp_path, "0"))
    words = shown.export_text().replace("│", " ").split()
    assert set(" ".join(value for _, value in of_client(read_run(tmp_path), "0").rows).split()) <= {*words}
    assert max(map(len, shown.export_text().splitlines()), default=0) <= width or width < 30


def test_a_training_that_failed_is_no_update_that_was_rejected() -> None:
    failed = [{"round": t, "client": 3, "reason": OF_TRAINING, "rejected": True} for t in range(2)]
    assert rejected_in_words(failed) == f"Training failed 2 times, at client 3, first in round 0: {OF_TRAINING}"
    other = {"round": 0, "client": 4, "reason": "an update that is not finite", "rejected": True}
    assert rejected_in_words([other, *failed]).startswith("3 updates were rejected, of clients 3, 4, first in round 0: an update")
