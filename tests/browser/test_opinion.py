"""An opinion and what a trial inherits are read from the log alone. The modules are served from the files, without the
app."""

import json

TRICK, LATE = ({"name": name, "verdict": "gaming", "said": "x"} for name in ("constant_result", "late"))
TRIALS = [
    {"number": 1, "parent": None, "judged": {"evidence": [TRICK]}},
    {"number": 2, "parent": 1, "untimed": {"evidence": [LATE]}},
    {"number": 3, "parent": 2, "failed": {"evidence": [TRICK]}},
    {"number": 4, "parent": 4, "judged": {"evidence": [TRICK]}},
    {"number": 5, "parent": 9, "judged": {"evidence": [TRICK]}},
]
LOG = [
    {"seq": seq, "kind": "script.shown", "data": {"topic": "opinion", "facts": {"trial": n, "verdict": word, **MORE}}}
    for seq, n, word, MORE in (
        (3, 3, "Inherited gaming", {"reason": "<b>as trial 1</b>", "model": "rehearsed"}), (9, 1, "No issue", {}),
    )
]  # fmt: skip
READ = """async (text) => {
  const { inherited, opinionOf, Opinion } = await import("/static/js/session/strategies/opinion.js");
  const { trials, log } = JSON.parse(text);
  const map = new Map(trials.map((one) => [one.number, one]));
  const root = document.createElement("div"), chosen = [];
  const box = new Opinion(root);
  box.draw(log, { trials: map }, 3, null, (n) => chosen.push(n));
  root.querySelector("button").click();
  const drawn = root.textContent, markup = root.querySelectorAll("p b").length;
  box.draw(log, { trials: map }, 2, null, () => {});
  return { lines: trials.map((one) => inherited(map, one.number)), drawn, markup, chosen,
    hidden: root.firstChild.hidden, early: opinionOf(log, 1, 5), late: opinionOf(log, 1) };
}"""


def test_the_page_shows_the_opinion_beside_the_evidence_and_the_ancestor_with_the_same_finding(checkout):
    seen = checkout.evaluate(READ, json.dumps({"trials": TRIALS, "log": LOG}))
    assert seen["lines"] == [None, None, {"number": 1, "names": ["constant_result"]}, None, None]
    assert "Opinion of a model (rehearsed) · Inherited gaming · <b>as trial 1</b>" in seen["drawn"]
    assert "constant_result stands in an ancestor, trial 1, too" in seen["drawn"] and seen["markup"] == 2
    assert seen["chosen"] == [1] and seen["hidden"] is True
    assert seen["early"] is None and seen["late"]["verdict"] == "No issue"
