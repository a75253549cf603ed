"""Modules at the edges: each gives a right graph, or one clear message that names what it is about and the line.

The pasted text is traced here and not in a sandbox: it is ours.
"""

import json

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace import child, parent
from engine.trace.load import Bad
from sol.bounds import bounds, external_bytes, legal_classes
from sol.graph import OpGraph
from sol.hardware import load
from sol.report import report

H200 = load("h200")
X = "torch.randn(8, 8)"


def text(forward, inputs=X, init="pass", head=""):
    rows = [f"        {row}" for row in forward.splitlines()]
    start = [f"        {row}" for row in init.splitlines()]
    return "\n".join(
        ["import torch", "import torch.nn as nn", "import torch.nn.functional as F", head, "class Model(nn.Module):",
         "    def __init__(self):", "        super().__init__()", *start, "    def forward(self, *args):", *rows,
         "def get_inputs():", f"    return [{inputs}]"]
    )  # fmt: skip


def graph(*args, **kwargs):
    return OpGraph.from_json(json.dumps(child._trace(text(*args, **kwargs), True)["graph"]))


def refused(*args, **kwargs):
    with pytest.raises(Bad) as e:
        graph(*args, **kwargs)
    return e.value


def ops(g):
    return [op.op for op in g.ops]


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        ("if args[0].sum() > 0:\n    return args[0] * 2\nreturn args[0]", "reads the value of a tensor (if)"),
        ("return args[0] * args[0].max().item()", "reads the value of a tensor (item)"),
        ("return args[0][: args[1]]", "reads the value of a tensor (item)"),
        ("return args[0][: args[1].tolist()]", "reads the value of a tensor (tolist)"),
        ("return torch.arange(args[1]) * args[0].sum()", "reads the value of a tensor (item)"),
        ("return args[0] * torch.equal(args[0], args[0])", "reads the values of a tensor (equal)"),
        ("return args[0] * int(args[0][args[0] > 0].sum())", "indexing with a mask"),
        ("return args[0][: torch.where(args[0] > 0)[0][0]]", "where(condition)"),
        ("return sum(args[0][i] for i, _ in torch.nonzero(args[0]))", "nonzero"),
        ("return sum(torch.unique(args[0]))", "unique"),
        ("return sum(torch.masked_select(args[0], args[0] > 0))", "masked_select"),
        ("return torch.repeat_interleave(args[0], args[0][0].int(), dim=0)", "repeat_interleave"),
    ],
)
def test_dependence_on_values_names_the_operation_the_line_and_a_way_out(forward, words):
    bad = refused(forward, f"{X}, torch.tensor(3)")
    assert (bad.code, bad.line) == ("data_dependent", 10)
    assert (
        f"Line 10, `{forward.splitlines()[0]}`" in bad.reason
        and words in bad.reason
        and "may depend on shapes only. " in bad.reason
    )


@pytest.mark.parametrize(
    "result",
    [
        "args[0][args[0] > 0]",
        "torch.where(args[0] > 0)[0]",
        "torch.nonzero(args[0])",
        "torch.unique(args[0])",
        "torch.masked_select(args[0], args[0] > 0)",
    ],
)
def test_a_result_whose_size_depends_on_values_has_its_line_and_a_way_out(result):
    bad = refused(f"return {result}")
    assert (bad.code, bad.line) == ("varying_result", 10) and "a result whose size depends on values" in bad.reason


@pytest.mark.parametrize(
    ("forward", "code", "words"),
    [
        ("return torch.from_numpy(args[0].numpy()) * 2", "leaves_torch", ".numpy()"),
        ("return torch.nested.nested_tensor([args[0]])", "not_covered", "a nested tensor, which the tracer cannot"),
        ("return torch.nested.as_nested_tensor(list(args), layout=torch.jagged)", "not_covered", "rnn.pad_sequence"),
        ("return args[0].to_sparse_csr() @ args[0]", "not_covered", ".to_dense()"),
        ("return args[0].as_subclass(type('Own', (torch.Tensor,), {})) * 2", "leaves_torch", "a class of its own"),
        ("return __import__('copy').deepcopy(args[0] * 2) + 1", "cannot_trace", "the memory of a tensor (a deepcopy"),
        ("return args[0].to(torch.uint16)", "element_type", "torch.uint16; the engine supports float64"),
        ("return args[0]", "nothing_computed", "its outputs are its inputs"),
    ],
)
def test_what_cannot_be_traced_is_named_with_its_line(forward, code, words):
    bad = refused(forward)
    assert (bad.code, bad.line) == (code, 10) and words in bad.reason


def test_a_compiled_function_is_what_it_compiles():
    assert ops(graph("return torch.compile(lambda x: x * 2)(args[0])")) == ["mul"]


def test_an_operator_of_the_text_is_looked_into_and_one_of_another_library_is_named_with_it():
    head = (
        "@torch.library.custom_op('mine::twice', mutates_args=())\ndef twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\ntwice.register_fake(torch.empty_like)\n"
    )
    assert ops(graph("return twice(args[0]) + 1", head=head)) == ["mul", "add"]
    bad = refused("return torch.ops.mine.twice(args[0]) + 1", head=head)
    assert bad.code == "not_covered" and "mine::twice, an operator that is not PyTorch's own" in bad.reason


def test_a_scripted_module_is_traced_by_torch_fx_whatever_its_name_is():
    """torch.export refuses scripted modules with a TypeError that quotes the class."""
    head = "class autocast_rows(nn.Linear):\n    pass\n"
    g = graph("return self.f(args[0])", init="self.f = torch.jit.script(autocast_rows(8, 8))", head=head)
    assert "addmm" in ops(g)


@pytest.mark.parametrize("block", ["torch.enable_grad()", "torch.autocast('cuda', enabled=False)",
                                   "torch.amp.autocast(device_type=args[0].device.type, enabled=False)"])  # fmt: skip
def test_a_block_that_only_switches_gradients_or_autocast_off_is_looked_into(block):
    g = graph(f"with {block}:\n    y = args[0] * 2\n    z = y.relu()\nreturn z + y")
    assert ops(g) == ["mul", "relu", "add"] and g.ops[1].line == 12


def test_a_model_that_is_a_sequential_itself_has_names_for_its_parameters():
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Linear(8, 4), nn.ReLU())\ndef get_inputs():\n    return [torch.randn(2, 8)]\n"
    )
    g = OpGraph.from_json(json.dumps(child._trace(source, True)["graph"]))
    names = {t.name: t.path for t in g.tensors.values() if t.kind == "parameter"}
    assert names == {"p_0_weight": "0.weight", "p_0_bias": "0.bias"}


def test_a_block_inside_another_is_looked_into():
    g = graph(
        "with torch.enable_grad():\n    y = args[0] * 2\n    with torch.autocast('cpu', enabled=False):\n"
        "        z = y.relu()\n    y = y + z\nreturn y.exp()"
    )
    assert ops(g) == ["mul", "relu", "add", "exp"] and g.ops[1].line == 13


def test_an_operation_without_a_rule_is_priced_by_its_bytes_and_named():
    sol_report = report(graph("return torch.linalg.svd(args[0])[0] * 2"), H200)
    assert "Priced by bytes alone: linalg_svd." in sol_report.notes
    assert sol_report.ops[0]["line"] == 10 and sol_report.ops[0]["bytes"] > 0


def test_broadcasting_reads_each_tensor_at_its_own_size():
    g = graph("return args[0] * args[1] + args[2]", "torch.randn(4, 1, 8), torch.randn(6, 1), torch.tensor(2.0)")
    assert sum(external_bytes(g).values()) == 4 * (4 * 8 + 6 + 1 + 4 * 6 * 8)


def test_a_tied_weight_is_one_tensor():
    g = graph(
        "return self.b(self.a(args[0]))",
        init="self.a, self.b = (nn.Linear(8, 8, bias=False) for _ in range(2))\nself.b.weight = self.a.weight",
    )
    assert sum(t.kind == "parameter" for t in g.tensors.values()) == 1
    assert sum(external_bytes(g).values()) == 4 * 64 * 3


def test_a_shared_module_is_called_twice_and_read_once():
    g = graph("return self.a(self.a(args[0]))", init="self.a = nn.Linear(8, 8)")
    assert ops(g) == ["linear", "linear"]
    assert bounds(g, H200, "f32").fused.flops == 2 * (2 * 8**3 + 64)
    assert sum(external_bytes(g).values()) == 4 * (64 + 8 + 2 * 64)


def test_complex_products_are_four_real_ones():
    g = graph("return args[0] @ args[0]", "torch.randn(8, 8, dtype=torch.complex64)")
    sol_report = report(g, H200)
    assert sol_report.totals["matrix_flops"] == 4 * 2 * 8**3 and sol_report.totals["bytes"] == 2 * 64 * 8
    assert sol_report.classes[0] == "f32" and any("complex" in note for note in sol_report.notes)


def test_integers_have_their_own_classes():
    assert legal_classes(graph("return args[0] + 1", "torch.arange(64).reshape(8, 8)"), H200) == ("f32",)
    g = graph("return torch._int_mm(args[0], args[0])", "torch.ones(32, 32, dtype=torch.int8)")
    assert legal_classes(g, H200) == ("i8",)
    assert sum(external_bytes(g).values()) == 32 * 32 + 32 * 32 * 4
    assert report(g, H200).bounds["i8"]["peak"] == H200.peak("i8")


def test_several_inputs_and_outputs_in_any_container():
    g = graph("return {'a': args[0] * 2, 'b': (args[1] + 1, [args[0] - args[1]])}", f"{X}, {X}")
    assert len(g.inputs) == 2 and len(g.outputs) == 3
    assert sum(external_bytes(g).values()) == 4 * 64 * 5


def test_numbers_and_none_among_the_inputs_are_written_into_the_operations():
    g = graph("return args[0] * args[1] if args[2] is None else args[0]", f"{X}, 3, None")
    assert g.ops[0].attrs == {"other": 3} and len(g.inputs) == 1


def test_in_place_writes_are_results():
    g = graph("y = args[0].clone()\ny[:, 1:3] = 0\ny.add_(1)\nreturn y")
    assert ops(g)[-1] == "add" and "slice_scatter" in ops(g)


def test_a_tensor_without_elements_is_known_where_it_is_made():
    g = graph("return args[0][:0] * 2")
    assert report(g, H200).bounds["f32"]["ms"] == 0
    bad = refused("return args[0] * 2", "torch.randn(0, 8)")
    assert bad.code == "bad_inputs" and "axis 0 has size 0" in bad.reason


def test_the_engine_refuses_it_by_operation_and_line():
    with pytest.raises(SessionRefused, match=r"^Line 10 \(mul\) makes a tensor without elements, \[0, 8\]") as e:
        parent._check_elements(graph("return args[0][:0] * 2"))
    assert (e.value.code, e.value.line) == ("empty_tensor", 10)


def test_a_reshape_that_strides_do_not_allow_is_a_copy():
    moved = graph("return args[0].T.reshape(4, 16)")
    seen = graph("return args[0].reshape(4, 16)")
    assert sum(external_bytes(moved).values()) == 2 * 64 * 4 and sum(external_bytes(seen).values()) == 0
    assert moved.tensors[moved.ops[0].outputs[0]].layout == "transposed"


def test_a_change_of_layout_is_a_copy_and_what_changes_nothing_is_not_there():
    copies = ("contiguous()", "to(memory_format=torch.channels_last)", "clone(memory_format=torch.contiguous_format)")
    for copy in copies:
        source = "args[0]" if "channels" in copy else "args[0].transpose(1, 2)"
        g = graph(f"return {source}.{copy}", "torch.randn(2, 3, 4, 5)")
        assert sum(external_bytes(g).values()) == 2 * 4 * 120, copy
    assert ops(graph("return args[0].contiguous().clone().float().to('cpu') * 2")) == ["mul"]


def test_layouts_are_said():
    g = graph(
        "return self.c(args[0].to(memory_format=torch.channels_last)).expand(3, 4, 6, 6) + args[1][:, :, ::2]",
        "torch.randn(3, 2, 8, 8), torch.randn(3, 4, 12, 6)",
        "self.c = nn.Conv2d(2, 4, 3)",
    )
    assert {t.layout for t in g.tensors.values()} >= {"contiguous", "strided"}


def test_a_layer_with_seventy_billion_parameters_needs_no_memory():
    g = graph(
        "return self.down(F.silu(self.up(args[0])))",
        "torch.randn(8192, 131072)",
        "self.up = nn.Linear(131072, 262144, bias=False)\nself.down = nn.Linear(262144, 131072, bias=False)",
    )
    assert sum(t.elements for t in g.tensors.values() if t.kind == "parameter") > 68e9
    assert bounds(g, H200, "bf16").fused.flops > 1.1e15


@pytest.mark.parametrize(
    ("layer", "dtype"),
    [("self.to(torch.bfloat16)", "bf16"), ("self.half()", "f16"), ("self.up.double(); self.down.double()", "f64")],
)
def test_a_layer_that_needs_no_memory_may_be_converted(layer, dtype):
    init = "self.up = nn.Linear(131072, 262144, bias=False)\nself.down = nn.Linear(262144, 131072, bias=False)"
    g = graph(
        "return self.down(F.silu(self.up(args[0].to(self.up.weight.dtype))))", "torch.randn(8192, 131072)",
        f"{init}\n{layer}"
    )  # fmt: skip
    assert {t.dtype for t in g.tensors.values() if t.kind == "parameter"} == {dtype}
    assert ops(g) == ["to", "linear", "silu", "linear"]


def test_a_converted_instance_and_a_tied_weight_stay_what_they_are():
    tied = "self.a, self.b = (nn.Linear(8, 8, bias=False) for _ in range(2))\nself.b.weight = self.a.weight"
    g = graph(
        "return self.b(self.a(args[0]))", f"{X}.half()", f"{tied}\nself.half()",
        head="ready = nn.LSTM(4, 4).half(); assert ready._flat_weights[0] is ready.weight_ih_l0"
    )  # fmt: skip
    assert [(t.dtype, t.shape) for t in g.tensors.values() if t.kind == "parameter"] == [("f16", (8, 8))]


# ---- what torch.export leaves to torch.fx ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "init", "expected"),
    [
        ("return torch.vmap(torch.dot)(args[0], args[0])", "pass", "bmm"),
        ("return self.l(args[0]) * 2", "self.l = torch.jit.script(nn.Linear(8, 8))", "addmm"),
        ("return torch.func.grad(lambda y: (y @ y).sum())(args[0])", "pass", "mm"),
        ("return torch.func.jvp(lambda y: y * y, (args[0],), (args[0],))[1]", "pass", "mul"),
        ("return torch.vmap(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))(args[0])", "pass", "where"),
    ],
)
def test_what_export_does_not_follow_fx_records(forward, init, expected):
    trace = child._trace(text(forward, init=init), True)
    g = OpGraph.from_json(json.dumps(trace["graph"]))
    assert (trace["has"]["by"], trace["has"]["fake"]) == ("torch.fx", True)
    assert expected in ops(g) and {op.line for op in g.ops} == {10} and report(g, H200).bytes_only == []
    state = {t.path for t in g.tensors.values() if t.kind == "parameter"}
    assert state == ({"l.weight", "l.bias"} if "self.l" in init else set())


def test_a_recorded_graph_is_functional_and_knows_inputs_in_any_container():
    g = graph(
        "y = torch.vmap(lambda a: F.relu(a @ self.w))(args[0])\ny.add_(1)\nreturn y, args[1]['b'] + 1",
        "torch.randn(5, 3, 8), {'a': 3, 'b': torch.randn(4)}",
        "self.w = nn.Parameter(torch.randn(8, 4))",
    )
    assert [(op.op, op.line) for op in g.ops] == [("matmul", 10), ("relu", 10), ("add", 11), ("add", 12)]
    assert [g.tensors[n].shape for n in g.inputs] == [(5, 3, 8), (4,)] and len(g.outputs) == 2


def test_export_goes_first():
    assert child._trace(text("return args[0] * 2"), True)["has"]["by"] == "torch.export"


def test_a_sparse_tensor_is_refused_where_it_is_made_or_read():
    dense = refused("return torch.sparse.mm(args[0].to_sparse(), args[0])")
    assert dense.line == 10 and "makes a sparse tensor (sparse_coo)" in dense.reason
    second = refused("return torch.sparse.mm(self.a, args[0])", init="self.a = torch.eye(8).to_sparse()")
    assert second.line is not None and "reads a, a sparse tensor" in second.reason


def test_a_tuple_with_none_in_it_is_told_from_nothing_at_all():
    assert len(graph("return args[0] * 2, None", "torch.randn(2, 3)").outputs) == 1
    assert refused("return None, None").reason.startswith("forward returns nothing (None);")


def test_an_empty_tensor_that_nothing_reads_is_no_matter():
    g = graph(
        "return self.e(args[0])", "torch.randint(0, 100, (16, 4))", "self.e = nn.EmbeddingBag(100, 8, mode='sum')"
    )
    assert any(0 in t.shape for t in g.tensors.values())
    parent._check_elements(g)
    table = next(t for t in g.tensors.values() if t.kind == "parameter")
    assert external_bytes(g)[table.name] <= table.bytes


def test_a_histogram_of_whole_numbers_that_only_a_gpu_counts_is_an_operation_of_the_graph():
    """PyTorch has no such kernel on a CPU; mixtures of experts count their tokens by it on a GPU."""
    counted = graph(
        "return self.l(args[0]) * torch.histc(args[1], bins=8, min=0, max=7).float()",
        inputs="torch.randn(4, 8), torch.randint(0, 8, (40,), dtype=torch.int32)", init="self.l = nn.Linear(8, 8)",
    )  # fmt: skip
    assert [op.op for op in counted.live][:2] == ["linear", "histc"]  # by torch.export: torch.fx gives no `linear`


def test_an_import_error_without_the_name_of_a_package_keeps_its_own_words():
    bad = refused("return args[0] * 2", init="raise ModuleNotFoundError('Could not import module A')")
    assert bad.code == "module_raised" and "ModuleNotFoundError: Could not import module A." in bad.reason
