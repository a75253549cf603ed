"""A float32 module as torch.autocast runs it: which operations compute in half precision, and which casts that takes.

Products, convolutions and attention read halves; softmax, norms, exp, sums and losses read and write float32; anything
else computes in the widest type that it reads. The lists are those of "Autocast Op Reference" in PyTorch's
documentation, for CUDA. Nothing is cached: a weight that two operations read is cast twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sol.cost.cost import canonical
from sol.cost.op_table import BATCH_NORM_TRAINS
from sol.cost.products import ATTENTION, CONVOLUTIONS
from sol.graph import Op, OpGraph, Tensor


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HALF = _names(
    "linear matmul mm mv bmm addmm addmv addr addbmm baddbmm chain_matmul linalg_multi_dot einsum dot prelu lstm gru "
    "rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell tensordot"
) | CONVOLUTIONS | frozenset(ATTENTION)  # fmt: skip
# These read halves and accumulate and write float32 in one kernel.
_ACCUMULATE = _names("softmax _softmax log_softmax _log_softmax sum prod cumsum cumprod")
_FLOAT = _names(
    "acos asin cosh cosine_embedding_loss cosine_similarity cdist _cdist_forward dist erfinv exp expm1 group_norm "
    "native_group_norm hinge_embedding_loss kl_div l1_loss layer_norm native_layer_norm rms_norm log log10 log1p log2 "
    "logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss_nd nll_loss2d "
    "cross_entropy_loss norm linalg_vector_norm frobenius_norm pow reciprocal renorm rsqrt sinh smooth_l1_loss "
    "huber_loss soft_margin_loss softplus tan triplet_margin_loss binary_cross_entropy_with_logits "
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"
)
_WIDEST = _names("cat concat stack index_put scatter_add grid_sampler addcdiv addcmul atan2 bilinear cross")
_TYPED = _names("to _to_copy type_as float half bfloat16 double convert_element_type")


def autocast(graph: OpGraph, half: str) -> OpGraph:
    """The graph with every cast as an operation `to`, and with the element types that result. `half`: f16 or bf16."""
    return _Autocast(graph, half).graph()


class _Autocast:
    def __init__(self, graph: OpGraph, half: str):
        self.old, self.half = graph, half
        self.tensors, self.ops = dict(graph.tensors), []
        self.casts: Counter[str] = Counter()

    def graph(self) -> OpGraph:
        for op in self.old.ops:
            name = canonical(op.op)
            floats = [n for n in op.inputs if self.tensors[n].dtype in ("f32", self.half)]
            wide = [n for n in floats if self.tensors[n].dtype == "f32"]
            # A number in a tensor does not widen what it is added to.
            widest = "f32" if any(self.tensors[n].shape for n in wide) or len(wide) == len(floats) else self.half
            reads, writes = None, widest
            if name in _HALF:
                reads = writes = self.half
            elif name in _FLOAT:
                reads = writes = "f32"
            elif name in _ACCUMULATE:
                writes = "f32"
            elif name in _WIDEST:
                reads = widest
            elif name in BATCH_NORM_TRAINS:  # its statistics stay float32
                writes = self.tensors[op.inputs[0]].dtype
            if name in _TYPED:
                writes = None  # the text names the type
            self.ops.append(replace(op, inputs=tuple(self._read(n, reads) for n in op.inputs)))
            for out in op.outputs if floats and writes else ():
                if self.old.tensors[out].dtype == "f32":
                    self.tensors[out] = replace(self.tensors[out], dtype=writes)
        return replace(self.old, tensors=self.tensors, ops=tuple(self.ops))

    def _read(self, name: str, dtype: str | None) -> str:
        """The tensor in this type, by an operation that casts it if it has another float type."""
        t = self.tensors[name]
        if dtype is None or t.dtype == dtype or t.dtype not in ("f32", self.half):
            return name
        self.casts[name] += 1
        copy = f"cast {name}" if self.casts[name] == 1 else f"cast {name}, again ({self.casts[name]})"
        self.tensors[copy] = Tensor(copy, t.shape, dtype, "intermediate")
        self.ops.append(Op(copy, "to", (name,), (copy,), {"dtype": dtype}))
        return copy
