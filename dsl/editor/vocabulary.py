"""Every word of the language with a one-line description, for completion, hover and syntax highlighting."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.arch import ARCHS, COVERED
from dsl.axes import SPATIAL
from dsl.check.families import FAMILIES
from dsl.functions import EVERY, INDEXED, REDUCTIONS
from dsl.ir import CELLS, NORMALIZATIONS, ORDERS
from dsl.ir import REDUCTIONS as REDUCE_OPS
from dsl.rules import legal


@dataclass(frozen=True)
class Entry:
    """A word. `kind`: keyword | stage | clause | function | type | value | axis | name. `use`: an example."""

    word: str
    kind: str
    use: str
    doc: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        label = "Clauses:" if self.kind == "stage" else "Values: "
        values = f"\n\n{label}   {', '.join(self.values)}" if self.values else ""
        return f"{self.word}, a {self.kind}: {self.doc}\n\nWritten:   {self.use}{values}"

    def to_json(self) -> dict:
        return {"word": self.word, "kind": self.kind, "use": self.use, "doc": self.doc, "values": list(self.values)}


_KEYWORDS = {
    "program": ("program NAME(x: f16[8, 8], ...) -> f16[8, 8] { ... }", "a pipeline: parameters in, results out"),
    "arch": ("arch sm_90a", "the target architecture; written once, before the stages"),
    "launch": ("launch graph", "how the stages are launched: one after another, or all as one CUDA graph"),
    "guard": (
        "guard f32",
        "conversions from f32 to f16 are checked; out of f16's range everything is computed again in f32",
    ),
    "return": ("return y, z", "the results, in the order of the types after ->"),
    "auto": ("tile auto", "the compiler chooses; the same as leaving the clause out"),
    "acc": ("epilogue relu(acc)", "the element that the stage computed, in f32"),
    "acc2": (
        "pairs  epilogue silu(acc) * acc2",
        "the odd column of pairs; in a normalize, the element before the norm; in an absmax, the largest magnitude of "
        "the row; in also of an lstm, the last cell state",
    ),
}

# clause -> (example, meaning, its values if there is a fixed set)
_CLAUSES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "compute": ("compute tf32", "operand precision: that of the operands on the tensor cores, tf32 for f32 (a "
                "convolution of nchw also f16 and bf16); f32 on the CUDA cores",
                ("tf32", "f16", "bf16", "e4m3", "e5m2", "i8", "f32")),
    "tile": ("tile 128x256x64", "one block's part of the output, M x N, and its step in K; for a convolution "
             "of nchw filters x pixels x channels at their taps", ()),
    "cluster": ("cluster 2x1x1", "blocks that share the operand tiles they load", ()),
    "schedule": ("schedule cooperative", "two warp groups on one tile, or each on its own", legal.SCHEDULES),
    "scheduler": ("scheduler persistent", "how SMs get tiles; stream_k and split_k(n) split K if there are few tiles",
                  ("persistent", "stream_k", "split_k(2)", "split_k(4)", "split_k(8)")),
    "stages": ("stages 4", "loads in flight in shared memory; default: as many as fit", ()),
    "swizzle": ("swizzle 4", "tiles processed together, so that L2 serves repeated reads",
                tuple(map(str, legal.SWIZZLES))),
    "backend": ("backend cpp", "forces one: cute builds in 2 s, cpp has every layout and architecture", legal.BACKENDS),
    "pairs": ("pairs", "columns 2j and 2j + 1 of the product are acc and acc2 of output column j", ()),
    "let": ("let t = acc + b[n]", "names a part for the expressions below it", ()),
    "also": ("also s = row_sum(acc)", "a second result of the same launch", ()),
    "store": ("store f32 nchw", "element type and/or layout of the result; default: those of the first operand",
              ("f32", "f16", "bf16", "nchw", "nhwc")),
    "epilogue": ("epilogue relu(acc + b[n])", "the expression that is computed from each element and stored", ()),
    "stride": ("stride 2x2", "steps of the window, one size a spatial axis", ()),
    "padding": ("padding 1x1", "zeros on both sides of each spatial axis", ()),
    "output_padding": ("output_padding 1x1", "elements added at the end of each axis of a transposed convolution", ()),
    "dilation": ("dilation 2x2", "steps within the window", ()),
    "groups": ("groups 8", "groups of channels: of a convolution, or of groupnorm", ()),
    "interleave": ("interleave", "rows of the first and the second tensor in turn", ()),
    "view": ("view 8x512", "another shape over the same elements, row by row", ()),
    "permute": ("permute 0x2x1", "axis i of the result is axis permute[i]", ()),
    "pad": ("pad 8x512", "the new shape; zeros are added at the ends", ()),
    "crop": ("crop 8x500", "the new shape; the ends are cut off. Of a map: the part of x that it reads", ()),
    "from": ("from 0x512", "the first element of a map's crop; default: that of x", ()),
    "layout": ("layout nhwc", "channels last (nhwc) or row-major (nchw) in memory", ("nhwc", "nchw")),
    "to": ("to f16", "a cast", ("f32", "f16", "bf16", "e4m3", "e5m2")),
    "prepack": ("prepack", "of a parameter: done once per version of the weight, outside the timed region", ()),
    "op": ("op sum", "the operation of a reduce, normalize, scan, pool or recurrent",
           (*REDUCE_OPS, *NORMALIZATIONS, "prod", "avg", *CELLS)),
    "over": ("over n", "the axes of the operation, by name; of concat, along which its tensors lie", ()),
    "of": ("of acc * v[n]", "the reduced, normalised or added-up expression of x's element acc", ()),
    "keepdim": ("keepdim", "the reduced axes stay, with length 1", ()),
    "reverse": ("reverse", "of scan: from the last element of the axis to the first", ()),
    "eps": ("eps 1e-5", "added to the variance", ("1e-5", "1e-6", "1e-3")),
    "scale": ("scale 0.125", "of attention: the factor of the scores; default: 1 / sqrt(d)", ()),
    "causal": ("causal", "of attention: query i reads keys 0 to i", ()),
    "order": ("order bmhd", "of attention's axes: batch, head, position, element; default: bhmd. Of a recurrent "
              "stage's: time and batch; default: tb", (*ORDERS, "tb", "bt")),
    "layer": ("layer 2", "of a recurrent stage with states: the layer whose states it reads, from 0", ()),
    "heads": ("heads 32x8", "of attention of one tensor, which holds the heads of q, of k and of v in turn: how many "
              "of q, and how many of k and of v", ()),
    "window": ("window 2x2", "the pooled window, or global: the whole channel", ("global",)),
}  # fmt: skip

_TYPES = {
    "f32": "32-bit float",
    "f16": "16-bit float: 11 bits of precision, largest 65,504",
    "bf16": "16-bit float: 8 bits of precision, the range of f32",
    "e4m3": "8-bit float: 4 bits of precision, largest 448",
    "e5m2": "8-bit float: 3 bits of precision, largest 57,344",
    "i8": "8-bit integer",
    "i32": "32-bit integer",
}
_VALUES = {
    "tf32": "f32 operands rounded to 11 bits of precision on the tensor cores",
    "cooperative": "two warp groups share one tile, so M >= 128",
    "pingpong": "each warp group has a tile of its own; one stores while the other multiplies",
    "persistent": "each block computes several tiles, one after another",
    "stream_k": "tiles are split along K so that every SM has the same work; cpp only",
    "split_k": "split_k(n): n blocks share each tile's K",
    "cute": "CuTe DSL: builds in 2 s; tf32 along k",
    "cpp": "CUTLASS C++: builds in 40 s",
    "nchw": "row-major, the last axis contiguous",
    "nhwc": "channels last: memory holds axis 0, axes 2.., axis 1",
    "bhmd": "each head's positions side by side",
    "bmhd": "each position's heads side by side, as a product writes them",
    "mbhd": "as bmhd, the positions before the batches",
    "global": "one window over the whole channel; the spatial axes stay, with length 1",
    "graph": "all stages as one CUDA graph",
    "stream": "stages one after another on the stream",
    "sum": "the sum",
    "mean": "the mean",
    "logsumexp": "log(sum(exp(x))), without overflow",
    "argmax": "the position of the largest, in i32",
    "avg": "the mean of the window, padding counted",
    "softmax": "exp(x) / sum(exp(x))",
    "log_softmax": "x - logsumexp(x)",
    "layernorm": "(x - mean) / sqrt(var + eps) over the last axes",
    "rmsnorm": "x / sqrt(mean(x^2) + eps) over the last axes",
    "groupnorm": "layernorm over groups of channels and space",
    "instancenorm": "layernorm over the space of each channel",
    "batchnorm": "inference: (x - mean) / sqrt(var + eps) with given statistics",
    **{a: f"{'default: ' if a == 'sm_90a' else ''}{d}" for a, d in (
        ("sm_80", "A100; cpp alone"), ("sm_89", "L4, RTX 40; cpp alone"), ("sm_90a", "H100, H200"),
        ("sm_100a", "B200; cpp alone, compiled but not run here"))},
}  # fmt: skip
_AXES = {
    "l": "all leading (batch) axes of a stack of matrices, together",
    "m": "rows: the last axis but one",
    "n": "columns: the last axis",
    "b": "the batch of an image tensor, axis 0",
    "c": "channels, axis 1",
    "d": "depth, of three spatial axes",
    "h": "height",
    "w": "width, the last axis",
}


def _entries() -> dict[tuple[str, str], Entry]:
    out = [Entry(w, "keyword", use, doc) for w, (use, doc) in _KEYWORDS.items()]
    out += [Entry(w, "stage", f.example, f.doc, f.clauses) for w, f in FAMILIES.items()]
    out += [Entry(w, "clause", *entry) for w, entry in _CLAUSES.items()]
    for f in EVERY.values():
        if f.infix is None:
            where = "; of a gemm" if f.name in INDEXED or f.name in REDUCTIONS else ""
            where += ", outermost in an epilogue or an also" if f.name in REDUCTIONS else ""
            out.append(Entry(f.name, "function", f.signature, f.formula + where))
    out += [Entry(w, "type", f"x: {w}[64, 64]", doc) for w, doc in _TYPES.items()]
    out += [Entry(w, "value", w, doc) for w, doc in _VALUES.items()]
    out += [Entry(w, "axis", f"x[{w}]", doc) for w, doc in _AXES.items()]
    return {(e.kind, e.word): e for e in out}


ENTRIES = _entries()
assert set(_TYPES) == {t.value for t in COVERED} and set(ARCHS) <= set(_VALUES)  # the tables match
SPATIAL_AXES = SPATIAL


def entry(word: str, *kinds: str) -> Entry | None:
    """The entry of a word in the first of these kinds that has it, or in any kind; None if there is none."""
    for kind in kinds or ("keyword", "stage", "clause", "function", "type", "value", "axis"):
        if (kind, word) in ENTRIES:
            return ENTRIES[kind, word]
    return None


def vocabulary() -> dict[str, list[str]]:
    """The words by kind, for syntax highlighting, with the comment sign and the operators."""
    kinds = ("keyword", "stage", "clause", "function", "type", "value", "axis")
    plural = {"axis": "axes"}
    words = {plural.get(k, f"{k}s"): [w for kind, w in ENTRIES if kind == k] for k in kinds}
    return {**words, "comment": ["#"], "operators": ["+", "-", "*", "/", "->", "="]}
