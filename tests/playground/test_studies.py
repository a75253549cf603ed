"""What the studies published stands in one file, from which the gallery draws; the README repeats its figures."""

import html
import json
import re
from pathlib import Path
from statistics import geometric_mean

import pytest
from django.test import Client

ROOT = Path(__file__).resolve().parents[2]
STUDIES = json.loads((ROOT / "static/data/studies.json").read_text(encoding="utf-8"))
FIGURE = re.compile(r"\d+\.\d+x?")


def test_each_study_has_its_claim_its_hardware_its_baseline_and_ours():
    assert [row["strategy"] for row in STUDIES["rows"]] == ["mucutlass", "two_stage", "optiml", "cutegen"]
    for row in STUDIES["rows"]:
        assert re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{5}", row["link"])
        assert all(row[name] for name in ("study", "published", "hardware", "baseline", "ours"))
        assert any(FIGURE.search(line) for line in row["ours"]) and row["our_hardware"] and row["our_baseline"]
        assert row["sources"] and all((ROOT / source).is_file() for source in row["sources"])


def test_our_figures_are_those_of_the_committed_results():
    bench = json.loads((ROOT / "static/data/bench.json").read_text(encoding="utf-8"))
    row = STUDIES["rows"][0]
    assert row["sources"][0].endswith(bench["from"]) and row["our_hardware"] == bench["gpu"]
    rehearsed = next(at for at, line in enumerate(row["ours"]) if "rehearsed" in line)
    for figure in FIGURE.findall(" ".join(row["ours"][:rehearsed])):
        assert figure in bench["classes"]["tf32"]["words"][0], figure


@pytest.mark.parametrize("row", STUDIES["rows"], ids=lambda row: row["strategy"])
def test_ours_of_each_strategy_are_rehearsed_and_say_so(row):
    runs = [json.loads((ROOT / source).read_text(encoding="utf-8")) for source in row["sources"][-2:]]
    assert all(r["gpu"] == row["our_hardware"] and r["model"].startswith("rehearsed") for r in runs)
    latest = {r["problem"]: r["speedup"] for run in runs for r in run["rows"] if r["arm"] == row["strategy"]}
    speedups = list(latest.values())
    assert len(speedups) == 8
    words = " ".join(row["ours"])
    words = words[words.index(f"{row['strategy']}, rehearsed") :]
    expected = [geometric_mean(speedups), min(speedups), max(speedups)]
    assert FIGURE.findall(words)[:3] == [f"{x:.2f}x" for x in expected] and "no language model" in words
    assert f"{sum(x > 1 for x in speedups)} of 8 faster than PyTorch" in words
    for figure in FIGURE.findall(words)[3:]:
        assert figure in {f"{x:.2f}x" for x in speedups}


def test_the_note_says_what_differs_between_the_rehearsed_problems():
    runs = [json.loads((ROOT / source).read_text(encoding="utf-8")) for source in STUDIES["rows"][0]["sources"][-2:]]
    shown = {row["strategy"] for row in STUDIES["rows"]}
    first, later = ([r for r in run["rows"] if r["arm"] in shown] for run in runs)
    again = {r["problem"] for r in later}
    assert again == {"attention_projections"} and len({r["problem"] for r in first} - again) == 7
    before = [r["speedup"] for r in first if r["problem"] in again]
    assert f"({min(before):.2f}x to {max(before):.2f}x)" in STUDIES["note"] and max(before) < 1
    more = {(r["arm"], r["trials"]) for r in [*first, *later] if r["trials"] > 6}
    assert more == {("two_stage", 24)} and "at most 6 trials a problem, and 24 for two_stage" in STUDIES["note"]
    assert runs[0]["date"] in STUDIES["note"] and runs[1]["date"] in STUDIES["note"]


def test_the_readme_repeats_no_other_figure():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("**What the studies published**")[2].partition("The prompts are ours")[0]
    known = set(FIGURE.findall(json.dumps(STUDIES["rows"], ensure_ascii=False)))
    lines = [line for line in table.splitlines() if "](https://arxiv.org" in line]
    assert [line.partition("](")[2].partition(")")[0] for line in lines] == [row["link"] for row in STUDIES["rows"]]
    for line, row in zip(lines, STUDIES["rows"], strict=True):
        study, published, _, against = (cell.strip() for cell in line.strip("|").split("|"))
        assert set(FIGURE.findall(published)) <= known and against == row["baseline"], study


def test_the_gallery_shows_each_row(db):
    page = Client().get("/gallery").content.decode()
    assert "What the studies published" in page
    for row in STUDIES["rows"]:
        assert row["link"] in page and row["hardware"] in page and "not measured yet" in page


def test_the_gallery_shows_each_group_of_shapes_or_why_it_is_empty(db):
    page = html.unescape(Client().get("/gallery").content.decode())
    shapes = json.loads((ROOT / "static/data/shape_groups.json").read_text(encoding="utf-8"))
    section = page.partition('id="shapes"')[2].partition("</section>")[0]
    for problem in shapes["problems"]:
        assert problem["title"] in section and problem["why"] in section and problem["published"] in section
        assert problem["why"] or problem["tables"], problem["name"]
        for table in problem["tables"]:
            assert all(f"<td>{cell}</td>" in section for row in table["rows"] for cell in row)
    assert shapes["gpu"] in section and shapes["from"] in section and shapes["model"] in section
