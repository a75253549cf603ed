"""The memory of a GPU: each session gets its part, the oldest request first, and gives it back."""

from engine.executors.room import BUSY, LONG, PASSES, Room

GB = 10**9


def test_sessions_enter_while_there_is_room_and_the_next_one_when_a_part_is_given_back():
    room = Room(10 * GB)
    first, second, third = (room.part(4 * GB) for _ in range(3))
    assert first.enter() and second.enter() and not third.enter()
    assert room.free() == 2 * GB and third.ahead() == 0
    first.leave()
    assert third.enter() and room.free() == 2 * GB


def test_a_large_module_is_passed_by_few_small_ones():
    room = Room(10 * GB)
    inside, large = room.part(4 * GB), room.part(8 * GB)
    small = [room.part(GB) for _ in range(PASSES + 1)]
    assert inside.enter() and not large.enter() and small[0].ahead() == 1
    assert [part.enter() for part in small] == [True] * PASSES + [False]
    for part in small[:PASSES]:
        part.leave()
    assert not small[-1].enter(), "it has been passed often enough"
    inside.leave()
    assert not small[-1].enter() and large.enter() and small[-1].enter()


def test_nothing_large_passes_one_that_waits():
    room = Room(10 * GB)
    inside, large, other = room.part(4 * GB), room.part(8 * GB), room.part(2 * GB)
    assert inside.enter() and not large.enter() and not other.enter()


def test_one_that_needs_more_than_there_is_runs_beside_small_ones():
    """Those that hold little keep it while they compile for minutes, and nobody waits for them."""
    room = Room(100 * GB)
    small, giant, large = room.part(5 * GB), room.part(500 * GB), room.part(20 * GB)
    assert small.enter() and giant.enter() and not large.enter()
    giant.leave()
    assert large.enter()


def test_one_that_leaves_the_line_is_out_of_it():
    room = Room(GB)
    inside, stopped, last = (room.part(GB) for _ in range(3))
    assert inside.enter()
    stopped.leave()
    assert not stopped.enter() and last.ahead() == 0
    inside.leave()
    assert last.enter()


def test_only_one_session_at_a_time_counts_with_its_need():
    room = Room(10 * GB)
    first, second, third, fourth = (room.part(need * GB, resting=GB) for need in (7, 4, 7, 8))
    assert first.enter() and room.free() == 3 * GB
    assert second.enter() and third.enter() and room.free() == GB, "each holds 1 GB, and one of them takes 6 more"
    assert not fourth.enter(), "4 GB and 7 more"
    third.leave()
    first.leave()
    assert fourth.enter() and room.free() == GB


def test_after_a_trial_a_session_counts_with_what_it_really_holds():
    in_use = 4 * GB
    room = Room(10 * GB, lambda: in_use)
    first, second = room.part(6 * GB, resting=GB), room.part(2 * GB, resting=GB)
    assert first.enter()
    first.settle()
    assert room.free() == GB, "5 GB more in its turn"
    assert second.enter()
    second.leave()


def test_what_a_session_holds_between_its_turns_keeps_others_out():
    in_use = 5 * GB
    room = Room(10 * GB, lambda: in_use)
    first, second = room.part(6 * GB, resting=GB), room.part(2 * GB, resting=GB)
    assert first.enter()
    first.settle()
    assert not second.enter()
    in_use = 2 * GB
    assert second.enter()


def test_a_gpu_that_does_not_say_what_is_in_use_counts_by_estimates():
    room = Room(10 * GB)
    first, second = room.part(8 * GB), room.part(4 * GB)
    assert first.enter()
    first.settle()
    assert not second.enter() and room.free() == 2 * GB


def test_memory_is_scarce_when_three_quarters_are_in_use_or_somebody_waits():
    in_use = 7 * GB
    room = Room(10 * GB, lambda: in_use)
    first, second = room.part(6 * GB), room.part(6 * GB)
    assert first.enter() and room.scarce(), "the second one waits"
    second.leave()
    assert not room.scarce()
    in_use = 8 * GB
    assert room.scarce()
    assert Room(10 * GB).scarce(), "nobody knows"


def test_who_waits_takes_no_memory_from_sessions_that_keep_the_lane_busy():
    room = Room(BUSY * GB, lambda: 2 * GB)
    inside = [room.part(GB) for _ in range(BUSY)]
    waits = room.part(GB)
    assert all(part.enter() for part in inside) and not waits.enter() and not room.scarce()
    inside[0].leave()
    assert room.scarce(), "fewer than that are inside, and somebody waits"
    assert waits.enter() and not room.scarce()


def test_who_waits_for_long_gets_what_the_others_can_give_back(monkeypatch):
    room, now = Room(BUSY * GB, lambda: 2 * GB), [0.0]
    monkeypatch.setattr("engine.executors.room.time.monotonic", lambda: now[0])
    inside = [room.part(GB) for _ in range(BUSY)]
    waits = room.part(GB)
    assert all(part.enter() for part in inside) and not waits.enter() and not room.scarce()
    now[0] = LONG + 1
    assert room.scarce()
