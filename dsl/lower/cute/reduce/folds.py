"""The text of the folds: the state of each reduction, and how elements and states are combined.

A fold has `start(width)`, the registers of a state for vectors of `width` elements; `fold(state, vectors, live)`, which
folds vectors of f32 elements into the state, where `live` (one boolean for each vector, or None) tells which vectors
exist; `scalars(state)`, the state as a tuple of numbers; `merge(a, b)`, which combines two such tuples; and `NUMBERS`,
the types of these numbers. Everything runs at trace time on CuTe values, without control flow on the device.
"""

from __future__ import annotations

from dsl.ir import DType

_COMMON = '''\
def chosen(live, values, neutral):
    """The elements of one vector, `neutral` where the vector is past the end."""
    if live is None:
        return [values[lane] for lane in range(cute.size(values.shape))]
    return [Float32(select_(live, values[lane], Float32(neutral))) for lane in range(cute.size(values.shape))]


def registers(count, value, dtype=Float32):
    made = cute.make_rmem_tensor((count,), dtype)
    made.fill(value)
    return made
'''

_LANEWISE = '''\
class {name}:
    """{doc}"""

    NUMBERS = (Float32,)

    @staticmethod
    def start(width):
        return registers(width, {neutral})

    @staticmethod
    def fold(state, vectors, live=None):
        # By halves before they join the state: the rounding of a long sum grows with the chunks, not the elements.
        values = [chosen(live and live[i], vector, {neutral}) for i, vector in enumerate(vectors)]
        while len(values) > 1:
            pairs = [
                [{name}.merge((a,), (b,))[0] for a, b in zip(*two)] for two in zip(values[::2], values[1::2])
            ]
            values = pairs + values[2 * len(pairs):]
        for lane, value in enumerate(values[0]):
            state[lane] = {name}.merge((state[lane],), (value,))[0]

    @staticmethod
    def scalars(state):
        total = (state[0],)
        for lane in range(1, cute.size(state)):
            total = {name}.merge(total, (state[lane],))
        return total

    @staticmethod
    def merge(a, b):
        return ({merge},)
'''

_SUM = _LANEWISE.format(
    name="Sum", doc="A sum in f32: one partial sum a lane.", neutral="0.0", merge="a[0] + b[0]",
)  # fmt: skip
_MAX = _LANEWISE.format(
    name="Max", doc="The greatest; NaN where there is one.", neutral="-Float32.inf",
    merge="cute.arch.fmax(a[0], b[0], nan=True)",
)  # fmt: skip
_MIN = _LANEWISE.format(
    name="Min", doc="The least; NaN where there is one.", neutral="Float32.inf",
    merge="cute.arch.fmin(a[0], b[0], nan=True)",
)  # fmt: skip

_LOGSUMEXP = '''\
class LogSumExp:
    """The greatest element, and the sum of exp(element - greatest): online, rescaled once a chunk."""

    NUMBERS = (Float32, Float32)

    @staticmethod
    def start(width):
        state = cute.make_rmem_tensor((2,), Float32)
        state[0], state[1] = -Float32.inf, 0.0
        return state

    @staticmethod
    def shift(greatest):
        """What is taken off before exp: 0 where the greatest is infinite, which would give inf - inf."""
        return Float32(select_(cute.math.absf(greatest) == Float32.inf, Float32(0.0), greatest))

    @staticmethod
    def fold(state, vectors, live=None):
        values = [v for i, x in enumerate(vectors) for v in chosen(live and live[i], x, -Float32.inf)]
        greatest = state[0]
        for value in values:
            greatest = cute.arch.fmax(greatest, value, nan=True)
        shift = LogSumExp.shift(greatest)
        total = state[1] * cute.math.exp(state[0] - shift, fastmath=True)
        for value in values:
            total = total + cute.math.exp(value - shift, fastmath=True)
        state[0], state[1] = greatest, total

    @staticmethod
    def scalars(state):
        return (state[0], state[1])

    @staticmethod
    def merge(a, b):
        greatest = cute.arch.fmax(a[0], b[0], nan=True)
        shift = LogSumExp.shift(greatest)
        left, right = cute.math.exp(a[0] - shift, fastmath=True), cute.math.exp(b[0] - shift, fastmath=True)
        return (greatest, a[1] * left + b[1] * right)
'''

_MOMENTS = '''\
class Moments:
    """Count, mean and sum of squared distances from it: exact within a chunk, chunks joined by Chan's formula."""

    NUMBERS = (Float32, Float32, Float32)

    @staticmethod
    def start(width):
        return registers(3, 0.0)

    @staticmethod
    def fold(state, vectors, live=None):
        width = cute.size(vectors[0].shape)
        count = Float32(float(width * len(vectors)))
        if live is not None:
            count = Float32(0.0)
            for one in live:
                count = count + Float32(select_(one, Float32(float(width)), Float32(0.0)))
        mean = Float32(0.0)
        for i, vector in enumerate(vectors):
            for value in chosen(live and live[i], vector, 0.0):
                mean = mean + value
        mean = mean / (count if live is None else cute.arch.fmax(count, 1.0))
        distance = Float32(0.0)
        for i, vector in enumerate(vectors):
            for lane in range(width):
                off = vector[lane] - mean
                if live is not None:
                    off = Float32(select_(live[i], off, Float32(0.0)))
                distance = distance + off * off
        joined = Moments.merge((state[0], state[1], state[2]), (count, mean, distance))
        state[0], state[1], state[2] = joined

    @staticmethod
    def scalars(state):
        return (state[0], state[1], state[2])

    @staticmethod
    def merge(a, b):
        count = a[0] + b[0]
        share = b[0] / cute.arch.fmax(count, 1.0)
        apart = b[1] - a[1]
        return (count, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share)
'''

_ARGMAX = '''\
class ArgMax:
    """The first place of the greatest element; NaN counts as the greatest. `fold` wants the elements' places."""

    NUMBERS = (Float32, Int32)

    @staticmethod
    def start(width):
        return registers(1, -Float32.inf), registers(1, 2147483647, Int32)

    @staticmethod
    def fold(state, vectors, live=None, places=None):
        best = (state[0][0], state[1][0])
        for i, vector in enumerate(vectors):
            for lane, value in enumerate(chosen(live and live[i], vector, -Float32.inf)):
                place = Int32(places[i][lane])
                if live is not None:
                    place = Int32(select_(live[i], place, Int32(2147483647)))
                best = ArgMax.merge(best, (value, place))
        state[0][0], state[1][0] = best

    @staticmethod
    def scalars(state):
        return (state[0][0], state[1][0])

    @staticmethod
    def merge(a, b):
        both = (a[0] == b[0]) | ((a[0] != a[0]) & (b[0] != b[0]))
        greater = (b[0] > a[0]) | ((b[0] != b[0]) & (a[0] == a[0]))
        better = greater | (both & (b[1] < a[1]))
        return (Float32(select_(better, b[0], a[0])), Int32(select_(better, b[1], a[1])))
'''

SPREAD = '''\
def across_lanes(fold, numbers, threads):
    """The merged state of `threads` neighbouring lanes of a warp, in each of them."""
    distance = threads // 2
    while distance:
        numbers = fold.merge(numbers, tuple(cute.arch.shuffle_sync_bfly(n, offset=distance) for n in numbers))
        distance //= 2
    return numbers


def across_block(fold, numbers, warps, memory):
    """The merged state of the block's warps, in every thread; `memory`: one tensor of `warps` a number."""
    warp = cute.arch.warp_idx()
    for store, number in zip(memory, numbers):
        store[warp] = number  # every lane has it
    cute.arch.barrier()
    total = tuple(store[0] for store in memory)
    for i in range(1, warps):
        total = fold.merge(total, tuple(store[i] for store in memory))
    return total


def each_lane(fold, states, vectors, live=None, places=None):
    """Folds each lane of the vectors into a state of its own."""
    for lane, state in enumerate(states):
        alone = []
        for vector in vectors:
            one = cute.make_rmem_tensor((1,), Float32)
            one[0] = vector[lane]
            alone.append(one)
        fold.fold(state, alone, live, *([places] if places else []))


def shared(allocator, dtype, shape):
    return allocator.allocate_tensor(dtype, cute.make_layout(shape), byte_alignment=16)
'''

FOLDS = {
    "Sum": _SUM,
    "Max": _MAX,
    "Min": _MIN,
    "LogSumExp": _LOGSUMEXP,
    "Moments": _MOMENTS,
    "ArgMax": _ARGMAX,
}
NUMBERS = dict.fromkeys(FOLDS, (DType.F32,))
NUMBERS |= {
    "LogSumExp": (DType.F32, DType.F32),
    "Moments": (DType.F32, DType.F32, DType.F32),
    "ArgMax": (DType.F32, DType.I32),
}


def fold_text(name: str) -> str:
    """The text of a fold and its helpers."""
    return _COMMON + "\n\n" + SPREAD + "\n\n" + FOLDS[name]


COMMON = _COMMON + "\n\n" + SPREAD
