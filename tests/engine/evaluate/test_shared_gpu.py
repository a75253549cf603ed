"""Sessions that share a GPU keep what their next work needs, and give it back where its memory is scarce."""

import threading
from types import SimpleNamespace

import pytest

from engine.devices import NO_ROOM, TrialError
from engine.evaluate.evaluator import Evaluator
from engine.executors.room import Room

GB = 1 << 30


class Bench:
    """A workbench that counts how often it gives back memory."""

    def __init__(self):
        self.trimmed = []
        self.programs = SimpleNamespace(timing=SimpleNamespace(compare=lambda candidates, baseline: []))

    def trim(self, hard):
        self.trimmed.append(hard)


@pytest.fixture
def shared():
    """(three sessions of one GPU, a function that sets the bytes in use)."""
    use = [0]
    machine = SimpleNamespace(
        name="cuda", kind="measured", hardware="h200", hw=None, lanes=1, forms=(), screens=True, builds_ahead=True,
        times_compiled=True, place="gpu0", loads_apart=True, compiles_rest=True, room=Room(100 * GB, lambda: use[0]),
    )  # fmt: skip
    sessions = []
    for _ in range(3):
        sessions.append(Evaluator(machine, lambda: sessions))
        sessions[-1]._workbench = Bench()
    return sessions, lambda used: use.__setitem__(0, used * GB)


def trims(sessions):
    return [one.workbench.trimmed for one in sessions]


def test_nothing_is_given_back_while_there_is_room(shared):
    sessions, uses = shared
    uses(40)
    for one in sessions:
        one.compare([], None)
    assert trims(sessions) == [[], [], []]


def test_what_was_kept_is_given_back_once_when_memory_is_scarce(shared):
    (first, second, third), uses = shared
    uses(40)
    first.compare([], None)
    uses(80)
    second.compare([], None)
    assert trims((first, second, third)) == [[False], [False], []], "the third keeps nothing"
    second.compare([], None)
    assert trims((first, second, third)) == [[False], [False, False], []]


def test_a_session_alone_keeps_everything(shared):
    (first, second, third), uses = shared
    second.at_work = third.at_work = False
    uses(99)
    first.compare([], None)
    assert first.workbench.trimmed == []


def test_work_that_runs_once_more_gives_back_what_it_kept(shared):
    (first, second, _), uses = shared
    uses(80)
    first.workbench.programs.rounds = SimpleNamespace(more_room=lambda: None)
    outcomes = [TrialError("measure", NO_ROOM[0], "too little memory"), []]

    def compare(candidates, baseline):
        if isinstance(outcome := outcomes.pop(0), Exception):
            raise outcome
        return outcome

    first.workbench.programs.timing.compare = compare
    assert first.compare([], None) == [] and outcomes == []
    assert first.workbench.trimmed == [False, False] and second.workbench.trimmed == [True]


def test_the_others_give_back_all_they_can_before_work_that_needs_more_than_is_free(shared):
    (first, second, third), uses = shared
    uses(40)
    first.clear_for(60 * GB)
    assert trims((first, second, third)) == [[], [], []]
    first.clear_for(61 * GB)
    assert trims((first, second, third)) == [[], [True], [True]]


def test_nobody_asks_the_processes_of_a_session_that_loads_a_kernel_without_the_lane(shared):
    (first, second, _), _ = shared
    loading, go_on = threading.Event(), threading.Event()

    class Kernels:
        @staticmethod
        def build(candidate):
            loading.set()
            return go_on.wait(20)

    first.problem = SimpleNamespace(graph=SimpleNamespace(writes=[]))
    first.workbench.others = {"kernel": Kernels}
    builds = threading.Thread(target=first.build, args=(SimpleNamespace(form="kernel"),))
    builds.start()
    try:
        assert loading.wait(20)
        first.trim(hard=True)
        second.trim(hard=True)
        assert (first.workbench.trimmed, second.workbench.trimmed) == ([], [True])
    finally:
        go_on.set()
        builds.join()
    first.trim(hard=True)
    assert first.workbench.trimmed == [True]
