"""A text that is not Python here: the message says what of it a newer Python has."""

import sys

import pytest

pytest.importorskip("torch")

from engine.trace.load import Bad, load

NEWER = {
    "type Pair = tuple[int, int]": "`type` statements need Python 3.12",
    "class Model[T]:\n    pass": "Type parameters in brackets need Python 3.12",
    "def first[T](x: T) -> T:\n    return x": "Type parameters in brackets need Python 3.12",
    "name = {'k': 1}\ntext = f'{name['k']}'": "quotes or a backslash inside the braces of an f-string need Python 3.12",
}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 runs these")
@pytest.mark.parametrize("source", NEWER)
def test_syntax_of_a_newer_python_is_named(source):
    with pytest.raises(Bad) as e:
        load(f"class Net:\n    pass\n{source}\n")
    assert e.value.code == "syntax_error" and NEWER[source] in e.value.reason and "runs Python 3." in e.value.reason


@pytest.mark.parametrize("source", ["type = = 3", "class Model(:\n    pass", "x = t 'a'"])
def test_a_plain_mistake_is_none(source):
    with pytest.raises(Bad) as e:
        load(f"class Net:\n    pass\n{source}\n")
    assert "runs Python" not in e.value.reason


@pytest.mark.parametrize(
    ("first", "help"),
    [("```python", "Markdown fence"), ("!pip install x", "notebook's command"), (">>> import torch", "console")],
)
def test_what_was_copied_with_the_text_is_named(first, help):
    with pytest.raises(Bad, match=f"Line 1: .*{help}.*leave"):
        load(f"{first}\nimport torch\nclass Model(torch.nn.Module):\n    pass\n")


PAIRS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, {init}):
        super().__init__()

    def forward(self, {forward}):
        return x

def get_inputs():
    return [[torch.ones(2)], {{"scale": 2.0}}]

def get_init_inputs():
    return [[64], {{"bias": False}}]
"""


@pytest.mark.parametrize(("init", "forward"), [("n, bias", "x, scale"), ("sizes, config", "x, options")])
def test_a_list_and_a_dictionary_are_named_arguments_where_the_names_are_taken(init, forward):
    loaded = load(PAIRS.format(init=init, forward=forward))
    inputs = loaded.inputs()  # from now on forward takes its arguments flat
    assert loaded.build()(*inputs) is not None
