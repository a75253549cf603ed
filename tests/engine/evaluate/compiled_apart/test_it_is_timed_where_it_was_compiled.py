"""What the second process compiled is timed there, beside the eager baseline in the same process."""

from unittest.mock import Mock


def test_every_way_is_compiled_and_timed_in_the_second_process(played):
    device = played.open()
    device.compile_ahead("compile", 300.0)
    device.compile_ahead("compile_tf32", 300.0)  # only the first one is begun
    for many, name in enumerate(("compile", "compile_tf32"), start=1):
        device.compile(name, 300.0)
        timed = device.compiled(name, ["tf32"])
        assert (timed.name, timed.beside) == (name, "eager_tf32") and timed.ratio_low <= timed.ratio
        assert timed.time.device["sm_mhz"] == 1980
        assert played.printed(1, "compile") == many
    assert len(played.processes) == 2 and played.printed(1, "run") > 0
    assert played.printed(0, "compile") == played.printed(0, "run") == 0


def test_its_time_is_stored_for_other_sessions(played):
    device = played.open()
    device.compile_ahead("compile")
    device.compile("compile")
    timed = device.compiled("compile", ["tf32"])
    assert device.workbench.compile_times.read("compile").time == timed.time


def test_the_second_process_gets_the_same_inputs(played, monkeypatch):
    device = played.open()
    device.compile_ahead("compile")
    opened = []
    for process in played.processes:
        monkeypatch.setattr(process, "baseline_open", Mock(side_effect=process.baseline_open))
        opened.append(process.baseline_open)
    device.baseline("eager", "eager_tf32")
    device.compile("compile")
    device.compiled("compile", ["tf32"])
    (_, seed, _), (_, again, _) = (mock.call_args.args for mock in opened)
    assert seed == again
