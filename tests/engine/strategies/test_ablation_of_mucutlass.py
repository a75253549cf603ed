"""What each switch of `mucutlass` takes away, and what its record says of a phase that is off."""

import json

from engine.llm.rehearse.player import Player
from engine.session import events
from engine.strategies.api import Reply
from engine.strategies.mucutlass.phases import FIXED
from tests.engine.session.scripted import Searching, of
from tests.engine.strategies.test_led_by_models import strategy

ROI_ORDER = (1.1, 3.0, 2.0)  # speedups in the nominated order; equal risks, so the second has the best return
NOMINATED = {
    "hypotheses": [
        {"title": f"idea {n}", "action": "tile", "speedup": s, "implementation": 2.0, "performance": 2.0}
        for n, s in enumerate(ROI_ORDER)
    ]
}


def play(**options):
    """(the log, the prompts) of one iteration whose hypotheses are NOMINATED."""
    player, prompts = Player(), []

    def handler(ask, turn):
        prompts.append(ask.prompt)
        text = json.dumps(NOMINATED) if ask.role == "nominate" else player.reply(ask.prompt)
        return Reply(text, model="scripted")

    options = {"iterations": 1, "hypotheses": 2, "attempts": 1} | options
    log = Searching(strategy("mucutlass", **options), handlers={"ask": handler}, trials=4).run()
    return log, prompts


def facts(log, topic):
    return [e.facts for e in of(log, events.Shown) if e.topic == topic]


def test_without_triage_hypotheses_go_in_the_nominated_order_and_the_table_says_so():
    log, _ = play(triage=False)
    (table,) = facts(log, "triage")
    assert [row["title"] for row in table["rows"]] == ["idea 0", "idea 1", "idea 2"] and table["by_roi"] is False
    assert [f["title"] for f in facts(log, "hypothesis")] == ["idea 0", "idea 1"]
    log, _ = play()
    (table,) = facts(log, "triage")
    assert [row["title"] for row in table["rows"]] == ["idea 1", "idea 2", "idea 0"] and table["by_roi"] is True
    assert [f["title"] for f in facts(log, "hypothesis")] == ["idea 1", "idea 2"]
    assert [row["chosen"] for row in table["rows"]] == [True, True, False]


def test_without_nomination_no_model_is_named_for_the_risks_of_the_reports_levers():
    log, _ = play(nominate=False)
    (table,) = facts(log, "triage")
    assert table["rows"] and {row["estimated_by"] for row in table["rows"]} == {FIXED}
    assert not any(e.role == "nominate" for e in of(log, events.Asked))


def test_without_the_report_no_prompt_holds_it():
    _, prompts = play(report=False)
    assert prompts and not any("# The speed-of-light report" in prompt for prompt in prompts)
    _, prompts = play()
    assert all("# The speed-of-light report" in prompt for prompt in prompts)


def test_without_the_profile_none_is_asked_for():
    log, _ = play(iterations=2, profile=False)
    assert not [e for e in of(log, events.Asked) if e.verb == "profile"]
    log, _ = play(iterations=2)
    assert [e for e in of(log, events.Answered) if e.verb == "profile"]
