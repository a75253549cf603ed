"""Mistakes that a rehearsal mixes in, each one that models make: the session must catch every one of them."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

from engine.llm.rehearse.pool import Drawn

REFUSAL = "I cannot help with this request."
# For programs, and for kernels; the last three spoil the reply and not its candidate.
OF_PROGRAMS = ("syntax", "type", "result", "slow", "refusal", "malformed", "prose")
OF_KERNELS = ("syntax", "result", "cheat", "refusal", "malformed", "prose")

LIBRARY = """\
import torch


def kernel(x, *rest):
    return torch.softmax(x, -1)
"""


def spoiled(drawn: Drawn, mistake: str, slowest: Drawn) -> Drawn:
    """The candidate with a mistake: syntax (does not parse), type (another result type), result (5% off), slow (the
    planner's last choice)."""
    text = drawn.text
    if mistake == "syntax":
        text = text.replace("return", "retrun", 1)
    elif mistake == "type":
        head, brace, body = text.partition("{")
        types = re.findall(r"\b(?:f32|f16|bf16)\b", head)
        other = "bf16" if types and types[-1] != "bf16" else "f32"
        text = other.join(head.rsplit(types[-1], 1)) + brace + body if types else text.replace("->", "=>", 1)
    elif mistake == "result":
        text, many = re.subn(r"epilogue ([^\n}]+)", r"epilogue (\1) * 1.05", text, count=1)
        text = text if many else text.replace("return", "retrun", 1)
    elif mistake == "slow":
        return slowest
    return replace(drawn, text=text)


def written(value: dict, mistake: str, rng: random.Random) -> str:
    """The reply as text, spoiled if the mistake is one of the reply: refusal, malformed (half an object), prose (words
    and a fence around a good object, which a tolerant reader accepts)."""
    text = json.dumps(value)
    if mistake == "refusal":
        return REFUSAL
    if mistake == "malformed":
        return text[: rng.randrange(1, max(2, len(text) // 2))]
    if mistake == "prose":
        return f"Here is what I suggest:\n```json\n{text}\n```\nIt should be faster."
    return text
