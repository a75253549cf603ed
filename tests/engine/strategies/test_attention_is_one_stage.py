"""Attention, PyTorch's or written out, is one stage that reads its heads where they lie, and means what is written."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Attention, Transform
from dsl.lower.plan.buffers import aliases
from dsl.printer import to_text
from engine.devices import Problem
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.lowering.rules.attention import recognised
from engine.strategies.planner.regions.partition import partition
from engine.strategies.problem import Prepared
from sol.hardware import load
from tests.engine.strategies.functions import traced

SDPA = nn.functional.scaled_dot_product_attention
B, T, H, D = 2, 24, 4, 16
C = H * D


def heads(x, count=H):
    return x.view(B, -1, count, D).transpose(1, 2)


def joined(y):
    return y.transpose(1, 2).reshape(B, -1, C)


def split(x):
    q, k, v = x.split(C, dim=2)
    return joined(SDPA(heads(q), heads(k), heads(v), is_causal=True))


def unbound(x):
    q, k, v = x.reshape(B, T, 3, H, D).permute(2, 0, 3, 1, 4).unbind(0)
    return joined(((q * 0.3) @ k.transpose(-2, -1)).softmax(dim=-1) @ v)


def grouped(q, k, v):
    def repeated(x):
        return heads(x, 2)[:, :, None].expand(B, 2, 2, T, D).reshape(B, H, T, D)

    return joined(SDPA(heads(q), repeated(k), repeated(v), is_causal=True))


def interleaved(q, k, v):
    return joined(SDPA(heads(q), *(heads(x, 2).repeat_interleave(2, dim=1) for x in (k, v))))


def crossed(q, kv):
    k, v = kv.view(B, -1, 2, H, D).permute(2, 0, 3, 1, 4)
    return joined(SDPA(heads(q), k, v))


def positions_first(x):
    q, k, v = (x[i].view(T, B * H, D).transpose(0, 1).view(B, H, T, D) for i in range(3))
    return SDPA(q, k, v).permute(2, 0, 1, 3).reshape(T * B, C)


def batched(q, k, v):
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 4.0, -1), v)


def masked(x):
    q, k, v = map(heads, x.split(C, dim=2))
    s = (q @ k.transpose(-2, -1)) * 0.25
    s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
    return joined(nn.functional.softmax(s.float(), dim=-1).to(x.dtype) @ v)


def of(*shape):
    return torch.randn(shape).half()


PACKED, SIDE, PAIR = (B, T, 3 * C), (B, T, C), (B, T, C // 2)
# Name -> the function, the shapes of its inputs, and the clauses of its stage.
CASES = {
    "heads as PyTorch has them": (lambda q, k, v: SDPA(q, k, v), [(B, H, T, D)] * 3, {"order": "bhmd"}),
    "one projection, split": (split, [PACKED], {"order": "bmhd", "heads": (H, H), "causal": True}),
    "one projection, unbound": (unbound, [PACKED], {"order": "bmhd", "heads": (H, H), "scale": 0.3}),
    "groups of heads": (grouped, [SIDE, PAIR, PAIR], {"order": "bmhd", "causal": True}),
    "repeated heads": (interleaved, [SIDE, PAIR, PAIR], {"order": "bmhd", "causal": False}),
    "other keys than queries": (crossed, [SIDE, (B, 8, 2 * C)], {"order": "bmhd", "heads": None}),
    "positions first": (
        lambda x: positions_first(x.unflatten(-1, (3, C)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()),
        [(T, B, 3 * C)], {"order": "mbhd", "heads": (H, H)},
    ),
    "heads among the batches": (batched, [(8, T, D)] * 3, {"scale": 0.25}),
    "written out, with a mask": (masked, [PACKED], {"order": "bmhd", "heads": (H, H), "causal": True, "scale": 0.25}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_stage_without_a_copy(name):
    torch.manual_seed(0)
    function, shapes, clauses = CASES[name]
    inputs = [of(*shape) for shape in shapes]
    graph = traced(function, *inputs)
    parts = partition(graph)
    (region,) = parts.regions
    program = check(to_text(region.lowered.program("f16"))).program
    (stage,) = (s for s in program.stages if isinstance(s, Attention))
    assert {key: getattr(stage, key) for key in clauses} == clauses
    copies = {s.name for s in program.stages if isinstance(s, Transform)} - aliases(program)
    assert not copies and len(program.stages) <= 4
    assert set(generate(program).sources) == {"cute"}
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    bound = [tensors[b.tensor].reshape(b.shape) for b in region.lowered.inputs]
    (y,) = oracle.run(program, bound)
    expected = function(*(x.double() for x in inputs))
    torch.testing.assert_close(y.double().reshape(expected.shape), expected, rtol=2e-3, atol=2e-3)


def slanted():
    """A causal mask that also lowers the scores which it leaves."""
    return (torch.full((T, T), -torch.inf).triu(1) - torch.ones(T, T).tril()).half()


AS_WRITTEN = {
    "an einsum of as many positions as elements": (
        lambda q, k, v: torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v),
        [(B, H, D, D)] * 3,
    ),
    "a causal mask with a bias": (lambda q, k, v: (q @ k.mT + slanted()).softmax(-1) @ v, [(B, H, T, D)] * 3),
    "PyTorch's own with such a mask": (lambda q, k, v: SDPA(q, k, v, attn_mask=slanted()), [(B, H, T, D)] * 3),
    "a mask of values": (lambda q, k, v, m: SDPA(q, k, v, attn_mask=m), [(B, H, T, D)] * 3 + [(T, T)]),
    "a bias": (lambda q, k, v, m: ((q @ k.mT) * 0.25 + m).softmax(-1) @ v, [(B, H, T, D)] * 3 + [(T, T)]),
    "scores that are returned": (lambda q, k, v: ((s := (q @ k.mT).softmax(-1)) @ v, s), [(B, H, T, D)] * 3),
    "heads of 4 elements": (lambda q, k, v: SDPA(q, k, v), [(B, H, T, 4)] * 3),
    "a causal mask at the upper left": (
        lambda q, k, v: SDPA(q, k, v, is_causal=True), [(B, H, 8, D)] + [(B, H, T, D)] * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_what_is_not_such_an_attention_stays_as_it_is_written(name):
    function, shapes = AS_WRITTEN[name]
    graph = traced(function, *(of(*shape) for shape in shapes))
    assert recognised(graph) is graph


def in_tf32(function, *shapes):
    """The first program of a session in tf32, or None, and what stays PyTorch."""
    graph = traced(function, *(torch.randn(shape) for shape in shapes))
    prepared = Prepared(Problem("", "module", graph), ("tf32",), load("h200"))
    first = prepared.parts[0].structures[0].base if prepared.parts else None
    return first, [u.op for u in prepared.uncovered]


def test_a_chain_in_f32_is_a_stage_under_a_guard():
    program, left = in_tf32(lambda q, k, v: ((q @ k.mT) * 0.25).softmax(-1) @ v, *[(B, H, T, D)] * 3)
    assert program.guard and not left and any(isinstance(s, Attention) for s in program.stages)


def test_pytorchs_own_in_f32_stays_because_it_does_not_round_to_tf32():
    program, left = in_tf32(lambda q, k, v: SDPA(q, k, v).relu(), *[(B, H, T, D)] * 3)
    assert left == ["scaled_dot_product_attention"] and not any(isinstance(s, Attention) for s in program.stages)


def test_one_side_in_another_order_is_copied_alone():
    def mixed(q, k, v):
        return joined(SDPA(heads(q), heads(k), v))

    graph = traced(mixed, of(*SIDE), of(*SIDE), of(B, H, T, D))
    program = check(to_text(lower(graph).program("f16"))).program
    copies = [s for s in program.stages if isinstance(s, Transform) and s.name not in aliases(program)]
    assert [s.permute for s in copies] == [(0, 2, 1, 3)]


def test_a_mask_is_causal_by_its_values_alone():
    def band(x):
        q, k, v = map(heads, x.split(C, dim=2))
        window = torch.ones(T, T, dtype=torch.bool).tril() & torch.ones(T, T, dtype=torch.bool).triu(-3)
        return ((q @ k.mT).masked_fill(~window, float("-inf")).softmax(-1)) @ v

    graph = traced(band, of(*PACKED))
    assert recognised(graph) is graph
