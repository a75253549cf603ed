"""engine/results/README.md names every committed file, and its index leads to the section of each kind."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

RESULTS = Path(__file__).resolve().parents[3] / "engine/results"
README = (RESULTS / "README.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in RESULTS.glob("*.json"))
INDEX = README.split("\n## Index\n")[1].split("\n## ")[0]
ENTRY = re.compile(r"^- \*\*(\d{4}-\d{2}-\d{2})")


def anchor(heading: str) -> str:
    """Of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def kinds() -> dict[str, str]:
    """The pattern of each kind of file in the index -> the heading of its section, or "" if there is none."""
    labels = dict(re.findall(r"^\[(\w+)\]: #(\S+)$", INDEX, re.M))
    headings = {anchor(heading): heading for heading in re.findall(r"^##+ (.+)$", README, re.M)}
    patterns = re.findall(r"\[`([^`]+)`\]\[(\w+)\]", INDEX)
    return {pattern: headings.get(labels.get(label, ""), "") for pattern, label in patterns}


def sections() -> dict[str, str]:
    """Heading -> text of each section of a kind."""
    parts = [part.split("\n## ")[0] for part in README.split("\n### ")[1:]]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_named_in_the_section_to_which_the_index_leads(name):
    texts = sections()
    leads = {heading for pattern, heading in kinds().items() if fnmatch(name, pattern)}
    assert leads, f"the index names no kind of {name}"
    assert all(f"`{name}`" in texts[heading] for heading in leads), f"{name} has no entry under {leads}"


def test_every_kind_of_the_index_has_files_and_a_section_that_names_it():
    texts = sections() | {"The ten problems furthest from their bound": README.split("\n## ")[-1]}
    for pattern, heading in kinds().items():
        assert any(fnmatch(path.name, pattern) for path in RESULTS.iterdir()), f"{pattern} has no file"
        assert f"`{pattern}`" in texts[heading], f"the link of {pattern} does not lead to its section"


def test_every_section_has_a_command_and_dated_entries_newest_first():
    for heading, text in sections().items():
        dates = [entry[1] for line in text.splitlines() if (entry := ENTRY.match(line))]
        assert re.search(r"```sh\n[^`]*python -m ", text), f"{heading}: no command"
        assert dates and dates == sorted(dates, reverse=True), f"{heading}: {dates}"


def test_no_line_but_a_tables_is_longer_than_120_characters():
    assert [line for line in README.splitlines() if len(line) > 120 and not line.startswith("| ")] == []


def test_every_file_that_the_readme_names_is_committed():
    named = re.findall(r"`([\w.-]+-\d{4}-\d{2}-\d{2}[\w.-]*)`", README)
    assert named and [name for name in named if not (RESULTS / name).exists()] == []
