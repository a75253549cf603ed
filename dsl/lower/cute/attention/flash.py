"""attention: one kernel of flash-attn-4 for sm_90a, whose launch sees each operand's heads where they lie."""

from __future__ import annotations

from math import prod

from dsl.ir import Attention, Program
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import own_plan
from dsl.lower.cute.stage import CUTE, Part, StagePlan, Text, types_of
from dsl.rules.attention import tile

MOST = 2**31  # elements of a tensor: offsets have 32 bits
HEADS = '''\
def heads(tensor, first, sizes, strides):
    """[batch, position, head, element] of a tensor, from its element `first` on. The kernel's order of tiles takes
    sizes as values of a run, not as constants of the text."""
    batches, positions, count, size = sizes
    layout = cute.make_layout((Int32(batches), Int32(positions), Int32(count), size), stride=strides)
    return cute.make_tensor(tensor.iterator + first, layout)
'''


def plan(program: Program, stage: Attention) -> StagePlan:
    types = types_of(program)
    name = stage.name
    names = list(dict.fromkeys([*(o.name for o in stage.operands), name]))
    for n in names:
        if prod(types[n].shape) > MOST:
            raise Refusal("cute-size", f"{n} has {types[n].elements:,} elements; attention takes {MOST:,}", None)
    parts = parts_of(stage, {n: types[n].shape for n in names})
    (_, _, q), _, (_, _, v), _ = parts
    (b, m, h, d), (_, n, g, e) = q[0], v[0]
    t = tile(d, e, stage.causal)
    dtype = CUTE[types[stage.q.name].dtype]
    text = Text()
    text.add(
        f"# {b} x {h} heads of {m:,} queries, {g} of {n:,} keys: {t.queries} queries and {t.keys} keys a step\n"
        f"{name}_heads = FlashAttentionForwardSm90(\n"
        f"    cutlass.{dtype}, {d}, {e}, {h // g}, is_causal={stage.causal}, pack_gqa=False,\n"
        f"    tile_m={t.queries}, tile_n={t.keys}, num_stages=2, num_threads={t.threads},\n"
        f"    mma_pv_is_rs={t.registers},  # probabilities through registers\n"
        ")",
        ("", "causal"),
    )
    text.gap(2)
    arguments = ", ".join(f"{n}: cute.Tensor" for n in names)
    text.add(
        f"@cute.jit\ndef {name}_launch({arguments}, stream: CUstream):\n"
        f'    """softmax({stage.scale:g} q k^T) v, head by head: the scores stay on the chip."""'
    )
    for letter, (tensor, first, (sizes, strides)) in zip("qkvo", parts, strict=True):
        text.add(f"    {letter}_heads = heads({tensor}, {first}, {sizes!r}, {strides!r})", ("", "order"), ("", "heads"))
    text.add(
        f"    {name}_heads(q_heads, k_heads, v_heads, o_heads, None, Float32({stage.scale!r}), stream=stream)",
        ("", "scale"),
    )
    imports = frozenset({("flash_attn.cute.flash_fwd_sm90", "FlashAttentionForwardSm90")})
    return own_plan(
        program, stage, text, f"{name}_launch", names, imports=imports, parts=[Part(HEADS, 40)],
    )  # fmt: skip


_Seen = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides of [b, position, head, element]


def parts_of(stage: Attention, shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, int, _Seen]]:
    """(tensor, its first element, sizes and strides) of q, k, v and the result."""
    operands = [o.name for o in stage.operands]
    seen = {n: _seen(stage, shape) for n, shape in shapes.items()}
    by_head = tuple(stage.by_head(shapes[n]) for n in operands)
    parts = []
    for i, first, count in stage.parts(by_head):
        (b, m, _, d), strides = seen[operands[i]]
        parts.append((operands[i], first * strides[2], ((b, m, count, d), strides)))
    return [*parts, (stage.name, 0, seen[stage.name])]


def _seen(stage: Attention, shape: tuple[int, ...]) -> _Seen:
    strides = tuple(prod(shape[i + 1 :]) for i in range(4))
    (b, h, m, d), (sb, sh, sm, sd) = stage.by_head(shape), stage.by_head(strides)
    return (b, m, h, d), (sb, sm, sh, sd)


__all__ = ["parts_of", "plan"]
