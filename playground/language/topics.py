"""The topic and the short name of an example, by the words of its file's name."""

from __future__ import annotations

# The first topic with one of a name's words is the example's.
TOPICS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (topic, frozenset(words.split()))
    for topic, words in (
        ("Attention", "attention heads"),
        ("Recurrent networks", "lstm gru rnn"),
        ("Whole blocks", "block transformer mixer moe mixture ffn"),
        ("Convolutions", "conv conv1d conv2d conv3d depthwise patch upsample"),
        ("Linear layers", "linear dense gemm"),
        ("MLPs and gates", "mlp swiglu geglu silu gelu relu"),
        ("Norms, losses and sums", "norm layernorm rmsnorm entropy sum"),
        ("Matrix products", "matmul bmm batched matrix einsum gemv split row shared residual"),
    )
)
OTHER = "Others"
# How words of a file's name are written; the others stay as they are.
_SPELLED = {
    "2d": "2-D", "3d": "3-D", "4d": "4-D", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "fp8": "FP8",
    "batchnorm": "batch norm", "bmm": "batched product", "bn": "batch norm", "conv1d": "1-D conv", "conv2d": "conv",
    "conv3d": "3-D conv", "convnext": "ConvNeXt", "div": "divided", "ffn": "FFN", "geglu": "GeGLU", "gelu": "GELU",
    "gemm": "linear", "gemv": "matrix by vector", "groupnorm": "group norm", "hardswish": "hard swish",
    "hardtanh": "clip", "instancenorm": "instance norm", "layernorm": "layer norm", "leaky": "leaky ReLU",
    "logsumexp": "log-sum-exp", "lstm": "LSTM",
    "matmul": "product", "maxpool": "max pool", "mish": "Mish", "mlp": "MLP",
    "moe": "mixture of experts", "nobias": "without bias", "postnorm": "post-norm", "relu": "ReLU", "resnet": "ResNet",
    "rgb": "of colours", "rms": "RMS", "rmsnorm": "RMS norm", "silu": "SiLU", "swiglu": "SwiGLU",
    "transpose2d": "transposed", "transpose3d": "transposed 3-D", "tril": "of lower triangles",
    "triu": "of upper triangles", "unet": "UNet", "k": "K",
}  # fmt: skip


def topic_of(stem: str) -> str:
    words = frozenset(stem.split("_"))
    return next((topic for topic, own in TOPICS if words & own), OTHER)


def name_of(stem: str) -> str:
    """`linear_silu_f16` is "Linear SiLU float16"."""
    name = " ".join(_SPELLED.get(word, word) for word in stem.split("_"))
    return name[:1].upper() + name[1:]
