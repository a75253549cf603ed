"""The page folds a log as the engine does: static/js/session/reduce.js against engine/session/fold/reduce.py.

Every recording is compared at each of its events, and random logs (tests/engine/session/logs.py) are compared as a
whole. `make test` draws 150 logs; to compare 10,000 of them, which takes some minutes:

    FOLD_LOGS=10000 .venv/bin/python -m pytest tests/browser/test_fold.py

A difference is shrunk to the smallest log that shows it. The page is served from the files, without the app.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from engine.session.fold.listing import plain
from engine.session.fold.reduce import View, fold
from engine.session.fold.view import UNDECIDED
from tests.browser.conftest import ROOT
from tests.engine.session.logs import logs

LOGS = int(os.environ.get("FOLD_LOGS", "150"))
BATCH = 500  # logs that go to the page at once
RECORDINGS = sorted((ROOT / "playground/recordings").glob("*.jsonl"))
DRAWN = settings(max_examples=LOGS, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
FOLD = """async (logs) => {
  const { apply, initial, plain } = await import("/static/js/session/reduce.js");
  return JSON.stringify(JSON.parse(logs).map((batches) => batches.reduce(apply, initial())).map(plain));
}"""
EACH = """async (text) => {
  const { apply, initial, plain } = await import("/static/js/session/reduce.js");
  const view = initial();
  return JSON.stringify(JSON.parse(text).map((row) => JSON.stringify(plain(apply(view, [row])))));
}"""


def of_page(checkout, some: list[list[list[dict[str, Any]]]]) -> list[Any]:
    """The page's views of logs, each given in batches, as plain data."""
    return json.loads(checkout.evaluate(FOLD, json.dumps(some)))


def ours(log: list[dict[str, Any]]) -> Any:
    return json.loads(json.dumps(plain(fold(log))))


def difference(theirs: Any, mine: Any, at: str = "view") -> str:
    """Where two views differ first; "" where they are the same."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and theirs.keys() == mine.keys():
        return next((d for k in mine if (d := difference(theirs[k], mine[k], f"{at}.{k}"))), "")
    if isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        pairs = enumerate(zip(theirs, mine, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{at}[{i}]"))), "")
    same = theirs == mine and isinstance(theirs, bool) == isinstance(mine, bool)
    return "" if same else f"{at}: the page has {theirs!r}, the engine {mine!r}"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_a_recording_is_folded_alike_at_each_of_its_events(checkout, path: Path):
    rows = [row for line in path.read_text(encoding="utf-8").splitlines() if "kind" in (row := json.loads(line))]
    theirs = json.loads(checkout.evaluate(EACH, json.dumps(rows)))
    view = View()
    for row, text in zip(rows, theirs, strict=True):
        assert view.apply(**row)
        assert not difference(json.loads(text), json.loads(json.dumps(plain(view)))), row["seq"]


def test_random_logs_are_folded_alike(checkout):
    drawn: list[list[dict[str, Any]]] = []

    @DRAWN
    @given(logs())
    def gather(log):
        drawn.append(log)

    gather()
    assert len(drawn) >= LOGS
    for first in range(0, len(drawn), BATCH):
        some = drawn[first : first + BATCH]
        for log, theirs in zip(some, of_page(checkout, [[log] for log in some]), strict=True):
            if difference(theirs, ours(log)):
                small = find(
                    logs(), lambda log: bool(difference(of_page(checkout, [[log]])[0], ours(log))),
                    settings=settings(DRAWN, phases=list(Phase)),
                )  # fmt: skip
                pytest.fail(
                    f"{difference(of_page(checkout, [[small]])[0], ours(small))}\n{json.dumps(small, indent=1)}"
                )


def test_overlapping_batches_give_the_same_view(checkout):
    """A reload, a reconnect and a page of the API send events again, and out of order."""

    @settings(DRAWN, max_examples=30)
    @given(logs())
    def holds(log):
        third = len(log) // 3
        once, again = of_page(checkout, [[log], [log[: 2 * third], log[third:][::-1], log]])
        assert not difference(again, once)

    holds()


def test_an_event_whose_predecessor_is_missing_is_not_applied(checkout):
    lines = map(json.loads, RECORDINGS[0].read_text(encoding="utf-8").splitlines())
    rows = [line for line in lines if "seq" in line][:9]  # between them stand texts
    (view,) = of_page(checkout, [[rows[:3], rows[5:]]])
    assert view["seq"] == 3
    (healed,) = of_page(checkout, [[rows[:3], rows[5:], rows[3:]]])
    assert not difference(healed, ours(rows))


def test_both_know_the_same_codes_of_trials_that_the_run_ended():
    words = (ROOT / "static/js/session/view.js").read_text(encoding="utf-8")
    names = words.partition("const UNDECIDED = [")[2].partition("]")[0]
    assert [name.strip(' \n"') for name in names.split(",") if name.strip()] == list(UNDECIDED)
