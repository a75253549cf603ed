"""What a module holds while it runs, in bytes, and when."""

from suite59 import Builder

from sol.cost.liveness import liveness

KB = 64 * 4 * 4  # a tensor of 64 x 4 floats


def test_a_chain_holds_two_intermediates_at_once():
    b = Builder()
    y = b.input("x", 64, 4)
    for _ in range(5):
        y = b.op("relu", y)
    memory = liveness(b.done(y))
    assert memory.external_bytes == KB
    assert memory.peak_bytes == 3 * KB  # the input, what an op reads, what it writes


def test_a_residual_is_held_until_it_is_added():
    b = Builder()
    first = b.op("relu", b.input("x", 64, 4))
    second = b.op("exp", b.op("exp", first))
    y = b.op("add", first, second)
    memory = liveness(b.done(y))
    assert memory.spans[first] == (0, 3)
    assert memory.peak_bytes == 4 * KB and memory.peak_op in ("exp_2", "add_3")


def test_a_view_keeps_what_it_looks_at():
    b = Builder()
    first = b.op("relu", b.input("x", 64, 4))
    flat = b.op("reshape", first, shape=(256,))
    b.op("exp", first)  # nobody reads it: it is never run
    y = b.op("exp", flat)
    memory = liveness(b.done(y))
    assert memory.spans[first] == (0, 3) and flat not in memory.spans
    assert memory.peak_bytes == 3 * KB


def test_parameters_and_outputs_stay():
    b = Builder()
    w = b.param("w", 4, 4)
    y = b.op("linear", b.input("x", 64, 4), w, shape=(64, 4))
    z = b.op("relu", y)
    memory = liveness(b.done(y, z))
    assert memory.spans["w"] == (-1, 2) and memory.spans[y] == (0, 2) and memory.spans[z] == (1, 2)
    assert memory.peak_bytes == KB + 4 * 4 * 4 + 2 * KB and memory.peak_op == "relu_1"


def test_a_module_of_views_holds_its_inputs_alone():
    b = Builder()
    memory = liveness(b.done(b.op("reshape", b.input("x", 64, 4), shape=(256,))))
    assert (memory.peak_bytes, memory.peak_op) == (KB, "")
