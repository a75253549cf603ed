"""The second opinion: asked in a child where it is installed, told as a note, and not missed where it is not."""

import importlib.util

import pytest

from engine.evaluate.integrity.texts import opinion, reading
from tests.engine.integrity import zoo

CHEAT = (zoo.HERE / "cheats" / "patched_event.py").read_text()
RULES = """\
BUILTIN_PROFILES = {"sol-execbench": {}}
profile = None
def configure_runtime(profile): globals()["profile"] = profile
def analyze_code(text):
    if "endless" in text:
        while True: pass
    if "not json" in text:
        raise ValueError("no")
    found = [{"pattern": "TIMER", "severity": "critical"}] * 2 if "elapsed_time" in text else []
    return {"classification": f"hacked by {profile}" if found else "valid", "matched_patterns": found}
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A package with kernelguard's two functions: what is tested is how it is asked and believed, not its rules."""
    (tmp_path / "kernelguard.py").write_text(RULES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(opinion, "installed", lambda: True)


def test_its_word_is_a_note_with_its_rules_each_once(rules):
    (finding,) = opinion.ask(CHEAT)
    assert finding.code == "second_opinion" and finding.severity == "note"
    assert finding.evidence == "kernelguard: hacked by sol-execbench: TIMER"


def test_what_it_finds_nothing_in_or_fails_on_is_no_finding(rules, monkeypatch):
    assert opinion.ask("x = 1") == [] and opinion.ask("not json") == []
    monkeypatch.setattr(opinion, "SECONDS", 1.0)
    assert opinion.ask("endless") == []


def test_where_it_is_not_installed_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(opinion, "installed", lambda: False)
    monkeypatch.setattr(opinion.subprocess, "run", lambda *a, **k: pytest.fail("a child was started"))
    assert opinion.ask(CHEAT) == []


@pytest.mark.skipif(importlib.util.find_spec("kernelguard") is None, reason="pip install kernelguard")
def test_the_real_one_names_a_patched_timer_beside_our_own_finding():
    reader = reading.TextReader(local_user=True)
    report = reader.read(CHEAT, "python", "f32")
    reader.close()
    assert "second_opinion" in report.codes and "TIMER_MONKEYPATCH" in str(report.findings)
