"""The strategy `again`: what its options carry, and what they refuse."""

import pytest

from engine.session import events
from engine.session.spec import BadSpec, SessionSpec, strategies
from engine.strategies import again
from engine.strategies.api import Candidate, Unsuitable

ONE = {"trial": 3, "text": "program p", "cls": "f16", "backend": "cute"}


def spec(*candidates, **more):
    return SessionSpec(source="x", strategy="again", options={"candidates": list(candidates), **more})


def test_a_request_carries_the_candidates():
    candidate = Candidate("extern", "f32", form="kernel", language="cuda", entry="run")
    kernel = again.options_of({7: candidate})["candidates"][0]
    asked = SessionSpec.from_json(spec(ONE, kernel).to_json())
    verbs = list(again.Again(asked.options).run(None))
    assert [v.candidate for v in verbs] == [Candidate("program p", "f16", "cute"), candidate]
    assert verbs[0].change == "trial 3 of the record"


def test_the_log_names_each_text():
    (row,) = spec(ONE).options.logged()["candidates"]
    assert row["text"] == events.blob_name("program p") and row["trial"] == 3


@pytest.mark.parametrize(
    "candidates",
    [
        [ONE] * (again.MOST + 1),
        [ONE | {"text": "x" * (again.MOST_TEXT // 2 + 1)}] * 2,
        [ONE | {"text": ""}],
        [ONE | {"trial": 0}],
        [ONE | {"cls": "int8"}],
        [ONE | {"path": "/etc/passwd"}],
        ["program p"],
    ],
)
def test_what_is_no_list_of_candidates_is_refused(candidates):
    with pytest.raises(BadSpec, match=r"options: candidates: (a list .*at most 8|their texts .*at most 400,000 are)"):
        spec(*candidates)


def test_nobody_chooses_it():
    assert "again" not in [one["name"] for one in strategies()]
    with pytest.raises(BadSpec, match="is not one of planner") as wrong:
        SessionSpec(source="x", strategy="nothing")
    assert "again" not in wrong.value.message
    with pytest.raises(Unsuitable):
        next(again.Again().run(None))
