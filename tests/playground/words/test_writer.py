"""What the rules say about a description: understood, assumed, not understood; and one clear message for a bad one."""

import ast

import pytest

from playground.words.tokens import Unclear
from playground.words.writer import EXAMPLES, write
from tests.playground.words.held_out import HELD_OUT
from tests.playground.words.operations import ARITHMETIC, LAYERS
from tests.playground.words.phrases import PHRASES

ALL = [*(row[0] for row in HELD_OUT + PHRASES), *ARITHMETIC.values(), *LAYERS.values(), *EXAMPLES]


def unclear(words: str) -> Unclear:
    with pytest.raises(Unclear) as caught:
        write(words)
    assert str(caught.value).endswith(".") and caught.value.fix.endswith(".") and "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("words", ALL)
def test_a_description_gives_the_same_module_each_time_and_nothing_is_left_unread(words):
    first = write(words)
    assert first == write(words) and first.not_understood == []
    tree = ast.parse(first.module)
    assert [n.name for n in tree.body if hasattr(n, "name")] == ["Model", "get_inputs", "get_init_inputs"]
    assert max(map(len, first.module.splitlines())) <= 180


@pytest.mark.parametrize("words", EXAMPLES)
def test_the_examples_of_the_page_leave_nothing_out(words):
    assert write(words).not_understood == []


def test_what_the_description_leaves_out_is_assumed_in_words():
    written = write("3x3 convolution, then relu")
    assert written.assumed == [
        "images of 56x56", "64 input channels", "a batch of 16", "float32", "the convolution keeps 64 channels",
        "no padding", "layers have a bias, as PyTorch's do",
    ]  # fmt: skip
    assert "torch.randn(16, 64, 56, 56)" in written.module and "nn.Conv2d(64, 64, 3)" in written.module


def test_words_that_no_rule_knows_are_named_with_their_place():
    written = write("linear layer, 8 in, 4 out,\nthen frobnicate wildly, then relu")
    assert written.not_understood == [{"text": "frobnicate wildly", "line": 2, "col": 6}]
    assert "self.linear(x)" in written.module and "torch.relu(x)" in written.module


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("relu with stride 2", "stride 2"),
        ("softmax of a 4x8 matrix in fp8", "fp8"),
        ("sum for each channel on 2 images of 8x8", "each channel"),
        ("linear layer from 8 to 4, 3 17", "3 17"),
        ("relu of a 4x8 matrix 😀", "😀"),
        ("masked softmax of a 4x8 matrix", "masked"),
    ],
)
def test_nothing_is_dropped_in_silence(words, place):
    assert place in [row["text"] for row in write(words).not_understood]


def test_the_order_of_words_that_turn_it():
    names = ("layer norm, then gelu", "gelu preceded by layer norm", "gelu after a layer norm", "gelu(layer norm(x))")
    bodies = [write(f"{words} of a 4x8 matrix").module.partition("class")[2] for words in names]
    assert len(set(bodies)) == 1 and bodies[0].index("self.norm(x)") < bodies[0].index("F.gelu(x)")


@pytest.mark.parametrize(
    ("words", "error", "fix"),
    [
        ("", "no description yet", "Name an operation"),
        (" \n\t ", "no description yet", "Name an operation"),
        ("😀🎉🔥" * 30, "has no words", "Name an operation"),
        ("relu " * ((64 << 10) // 5), "the limit is 4,000", "few sentences"),
        ("умножь матрицу на вектор", "no English word", "Write it in English"),
        ("矩阵乘法 1024x1024", "no English word", "Write it in English"),
        ("Multipliziere zwei Matrizen der Größe acht", "no operation that the rules know", "The rules read English"),
        ("frobnicate <b>it</b>", "no operation that the rules know", "for example: linear layer"),
        ("hello there", "no operation that the rules know", "for example: linear layer"),
        ("1024x8192 in bf16", "sizes and no operation", "Name an operation"),
        ("import torch\nclass Model(nn.Module):\n  pass", "Python code", "tab “PyTorch module”"),
        ("def forward(self, x):\n  return x", "Python code", "tab “PyTorch module”"),
        ("program p(a: f16[8, 8]) -> f16[8, 8] {", "μCUTLASS program", "tab “μCUTLASS program”"),
        ("1024x8192 times 4096x512", "8192 columns, 4096 rows", "Make both 8192"),
        ("linear 512 to 1024 then linear 2048 to 10", "takes 2048 features", "from 1024"),
        ("relu on a batch of 8, batch size 16", "two values for its batch size: 8 and 16", "Keep one"),
        ("relu in half precision and bf16", "two values for its type", "Keep one type"),
        ("conv from 64 to 128 channels then conv from 32 to 8 channels", "takes 32 channels", "from 128 channels"),
        ("conv 64 to 128 channels with 3 groups", "3 groups do not divide 64", "divides the channels"),
        ("conv with kernel 9 on images of 4x4", "larger than its images", "larger images"),
        ("conv with kernel 0", "kernel 0", "Write kernel 3x3"),
        ("attention with 3 heads and width 64", "3 heads do not share 64 features", "heads times head size"),
        ("max pooling after a linear layer from 8 to 8", "needs images", "Name images"),
        ("relu of a 100000x100000 matrix", "10,000,000,000 elements", "smaller sizes"),
        ("linear with 999999999999 outputs", "too large", "Sizes go up to"),
        ("clamp between 2 and 1 on a 4x4 matrix", "limits 2 and 1", "lower limit first"),
        ("divide by 0", "divides by 0", "another number"),
        ("softmax over dim 5 of a 4x4 matrix", "dimension 5", "0 to 1"),
        ("linear 8 to 0", "0 is no number of outputs", "whole number"),
        ("relu of a 0x4 matrix", "the size 0", "sizes such as"),
        ("relu of a 1.5x4 matrix", "the size 1.5", "sizes such as"),
        ("relu, " * 60, "more than 48 operations", "few operations"),
    ],
)
def test_a_bad_description_gets_one_message_with_the_way_out(words, error, fix):
    e = unclear(words)
    assert error in str(e) and fix in e.fix


def test_a_refusal_names_the_words_that_no_rule_knows():
    assert [p["text"] for p in unclear("cross entropy of the result").places] == ["cross entropy"]


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("layer norm over 4096 then linear to 11008", "torch.randn(2048, 4096)"),
        ("softmax over 4096 values, batch 128", "torch.randn(128, 4096)"),
        ("batch norm over 64 channels of 56x56 images", "torch.randn(16, 64, 56, 56)"),
    ],
)
def test_a_width_behind_over_is_the_inputs(words, shape):
    written = write(words)
    assert shape in written.module and written.not_understood == []
