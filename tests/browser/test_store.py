"""The store folds the log to the view: each event once, in order, whoever sends it how often."""

import json

import pytest

STORE = """async (calls) => {
  const { apply, fold, initial } = await import("/static/js/store.js");
  const state = initial();
  const gaps = [];
  for (const events of calls) { apply(state, events); gaps.push(state.gap); }
  const plain = (s) => ({ ...s, trials: [...s.trials.values()] });
  const all = calls.flat();
  const unique = all.filter((e, i) => all.findIndex((o) => o.seq === e.seq) === i);
  return { state: plain(state), gaps, folded: plain(fold(unique)) };
}"""


@pytest.fixture
def store(open_page):
    page = open_page("/robots.txt")  # any page of this origin
    return lambda *calls: page.evaluate(STORE, list(calls))


@pytest.fixture
def log(finished):
    return finished["events"]


def test_a_log_sent_twice_gives_the_same_view(store, log):
    once, twice = store(log), store(log, log)
    assert json.dumps(once["state"]) == json.dumps(twice["state"])
    assert once["state"]["seq"] == len(log)


def test_batches_that_overlap_give_the_same_view(store, log):
    third = len(log) // 3
    assert store(log[: 2 * third], log[third:], log[:third])["state"] == store(log)["state"]


def test_an_event_whose_predecessor_is_missing_is_not_applied(store, log):
    told = store(log[:3], log[5:])
    assert told["gaps"] == [False, True]
    assert told["state"]["seq"] == 3


def test_a_gap_is_healed_by_asking_again(store, log):
    assert store(log[:3], log[5:], log[3:])["state"] == store(log)["state"]


def test_replay_to_the_end_is_the_live_view(store, log):
    told = store(*[[e] for e in log])
    assert told["folded"] == told["state"]
