"""Nothing is timed while another process of the bench uses the GPU: they take turns by a lock on a file."""

import subprocess
import sys
import threading

from engine.evaluate.timing.gpu_lock import Turn


def free(path):
    """Whether another process would get its turn now."""
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True).returncode == 0


def test_a_turn_is_one_processs_until_its_outermost_end(tmp_path):
    turn = Turn(tmp_path / "turn")
    assert free(tmp_path / "turn")
    with turn:
        with turn:
            assert not free(tmp_path / "turn")
        assert not free(tmp_path / "turn")
    assert free(tmp_path / "turn")


def test_a_turn_that_is_given_back_is_free_meanwhile_and_taken_again_for_what_is_measured(tmp_path):
    turn = Turn(tmp_path / "turn")
    with turn, turn:
        with turn.given_back():
            assert free(tmp_path / "turn")
            with turn:
                assert not free(tmp_path / "turn")
            assert free(tmp_path / "turn")
        assert not free(tmp_path / "turn")
    assert free(tmp_path / "turn")


def test_another_thread_waits_for_the_first_ones_end(tmp_path):
    turn, order = Turn(tmp_path / "turn"), []

    def other():
        with turn:
            order.append("other")

    with turn:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "other"]


def test_without_a_file_nobody_waits():
    with Turn(None) as turn, turn.given_back():
        pass
