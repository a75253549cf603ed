"""What turns cost is folded from the log, and budgets hold before a call is made."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.llm.budget import Day, OverBudget, SessionTokens
from engine.llm.ledger import entries, ledger
from engine.session.events import Answered, Asked, Progress


def asked(path, role="plan", attempt=1, **more):
    return Asked(path, "d", "ask", role, "", attempt, "m", {}, 50, **more)


def answered(path, tokens_in=100, out=20, **more):
    return Answered(path, "d", "ask", tokens={"in": tokens_in, "out": out, "cached": 40}, seconds=2.0, **more)


LOG = [
    asked("1"), answered("1", model="m-1", cost=0.5, prices="2026-11-01"),
    Asked("2", "d", "profile"), Answered("2", "d", "profile", seconds=9.0),
    asked("3.1", "triage"), asked("3.2", "triage"), answered("3.2", cost=0.25, prices="2026-11-01", retries=2),
    asked("3.1", "triage", attempt=2), answered("3.1", estimated=True),
    asked("4"), Answered("4", "d", "ask", refusal="stopped"),
    asked("5"), asked("5", attempt=2), Answered("5", "d", "ask", refusal="lost"),
    asked("6"), Answered("6", "d", "ask", refusal="rate_limited", retries=5, seconds=9.0),
    asked("7"), Progress("Searching"),
]  # fmt: skip


def test_turns_add_up_by_role():
    book = ledger(LOG)
    plan, triage, total = book.roles["plan"], book.roles["triage"], book.total
    assert (plan.turns, plan.cost, plan.unknown, plan.refused, plan.unpriced) == (2, 0.5, 3, 1, 0)
    assert (triage.turns, triage.cost, triage.unknown, triage.unpriced, triage.estimated) == (2, 0.25, 1, 1, 1)
    assert total.tokens == {"in": 300, "out": 60, "cached": 120} and total.cost == 0.75
    assert total.seconds == 15.0 and total.retries == 7 and total.prices == {"2026-11-01"}


def test_a_lost_attempt_is_of_unknown_cost_and_one_under_way_is_open():
    status = {(e.path, e.attempt): e.status for e in entries(LOG)}
    assert [key for key, s in status.items() if s == "unknown"] == [("3.1", 1), ("4", 1), ("5", 1), ("5", 2)]
    assert status["7", 1] == "open" and ("2", 1) not in status
    assert {e.path: e.model for e in entries(LOG)}["1"] == "m-1"


def test_every_beginning_of_a_log_has_an_account():
    turns = [ledger(LOG[:cut]).total.turns for cut in range(len(LOG) + 1)]
    assert turns == sorted(turns) and turns[-1] == 4


def test_a_session_ends_at_its_tokens():
    tokens = SessionTokens(most=3000, tokens_a_call=1000)
    past = entries(LOG[:2])
    assert tokens.reserve(("2", 1), past, 100, 1000) == 1000
    assert tokens.reserve(("3", 1), past, 100, 1000) == 1000, "beside it, as a member of a Together"
    assert tokens.reserve(("4", 1), past, 100, 1000) == 3000 - 120 - 2200 - 100, "what is left"
    with pytest.raises(OverBudget, match=r"3,000 of 3,000; .*UCUTLASS_TOKENS_A_SESSION"):
        tokens.reserve(("5", 1), past, 0, 1000)
    tokens.settle(("2", 1), 500)
    assert tokens.reserve(("6", 1), past, 0, 1000) == 600


def test_a_session_whose_first_turn_does_not_fit_says_what_it_needs():
    with pytest.raises(OverBudget, match=r"used up \(0 of 1,000; this turn needs at least 1,156\)"):
        SessionTokens(most=1000, tokens_a_call=1000).reserve(("2", 1), [], 900, 1000)


def test_another_engine_counts_lost_attempts_at_their_most():
    past = entries([asked("1"), asked("1", attempt=2)])
    tokens = SessionTokens(most=3000, tokens_a_call=1000)
    assert tokens.reserve(("1", 2), [e for e in past if e.attempt < 2], 50, 5000) == 3000 - 1050 - 50


def test_the_day_is_one_account_for_all(tmp_path):
    day = Day(tmp_path / "var", 100_000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: day.reserve(100, 900), range(40)))
    assert Day(tmp_path / "var", 100_000).used() == 40_000
    today, granted = day.reserve(0, 50_000)
    day.settle(today, granted, 10)
    assert day.used() == 40_010
    assert day.reserve(10, 80_000)[1] == 59_980, "what is left"
    with pytest.raises(OverBudget, match=r"100,000 of 100,000.*UCUTLASS_TOKENS_A_DAY"):
        day.reserve(0, 1000)


def test_a_new_day_begins_at_zero(tmp_path):
    dates = ["2026-11-22"]
    day = Day(tmp_path, 1000, lambda: dates[-1])
    first, granted = day.reserve(0, 1000)
    dates.append("2026-11-23")
    assert day.used() == 0 and day.reserve(0, 500)[1] == 500
    day.settle(first, granted, 0)
    assert day.used() == 500, "yesterday's call takes nothing from today"


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"day": "x"})])
def test_an_account_that_cannot_be_read_is_no_free_day(tmp_path, text):
    (tmp_path / "model_tokens.json").write_text(text)
    with pytest.raises(OverBudget, match="Delete that file"):
        Day(tmp_path, 1000).reserve(0, 500)


def test_one_address_cannot_use_up_the_day_of_the_others(tmp_path):
    mine, theirs = (Day(tmp_path, 10_000, address=name, most_of_address=3000) for name in ("mine", "theirs"))
    day, granted = mine.reserve(1000, 1500)
    assert granted == 1500
    mine.settle(day, 2500, 2500)
    with pytest.raises(OverBudget, match=r"of your address .* UCUTLASS_TOKENS_AN_ADDRESS"):
        mine.reserve(400, 1500)
    assert theirs.reserve(1000, 5000)[1] == 2000, "the longest reply shrinks to what is left"
    assert Day(tmp_path, 10_000).used() == 2500 + 3000
