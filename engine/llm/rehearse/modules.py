"""A module by rule for the role `words`: a linear layer of the first sizes in the description, with its activation."""

from __future__ import annotations

import re
from typing import Any

SIZES = re.compile(r"\b\d{1,5}\b")
ACTIVATIONS = {"gelu": "gelu", "silu": "silu", "swish": "silu", "sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu"}
USUAL = (1024, 1024, 256)  # in, out, batch
MOST = 16_384
TEXT = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.randn({batch}, {inputs})]


def get_init_inputs():
    return [{inputs}, {outputs}]
"""


def module_of(description: str, mistake: str) -> dict[str, Any]:
    """The reply to a description. `mistake`: syntax (no Python), type (no get_inputs) or another one, which changes
    nothing here."""
    sizes = [min(max(int(n), 1), MOST) for n in SIZES.findall(description)][:3]
    inputs, outputs, batch = [*sizes, *USUAL[len(sizes) :]]
    name = next((f for word, f in ACTIVATIONS.items() if word in description.lower()), "")
    result = f"torch.nn.functional.{name}(self.linear(x))" if name else "self.linear(x)"
    text = TEXT.format(result=result, inputs=inputs, outputs=outputs, batch=batch)
    if mistake == "syntax":
        text = text.replace("return", "retrun", 1)
    elif mistake == "type":
        text = text.replace("get_inputs", "inputs_of")
    then = f", then {name}" if name else ""
    names = ("inputs", "outputs", "batch size")
    assumed = [f"{names[i]}: {USUAL[i]}" for i in range(len(sizes), 3)]
    return {
        "module": text, "sentence": f"Rehearsed: a linear layer from {inputs} to {outputs}{then}.",
        "assumptions": ["a rule read the sizes in their order", *assumed],
    }  # fmt: skip
