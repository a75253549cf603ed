"""The role `opinion` by rule: what the evidence in the prompt says, in one of the four words."""

from __future__ import annotations

import re
from typing import Any

_EVIDENCE = re.compile(r"^<<<evidence ([0-9a-f]{16})\n(.*?)\n\1 end>>>$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^([\w ]{1,60}) \((\w[\w ]{0,20})\): ", re.MULTILINE)
_INHERITED = re.compile(r"^Trial (\d{1,6}), from which this one was derived, has the same finding:", re.MULTILINE)


def opinion_of(prompt: str) -> dict[str, Any]:
    """The reply of the form Opinion."""
    fenced = _EVIDENCE.findall(prompt)
    lines = _LINE.findall(fenced[-1][1]) if fenced else []
    named = {verdict: name for name, verdict in reversed(lines)}
    if "gaming" in named:
        ancestor = _INHERITED.search(prompt, prompt.rfind("# The evidence"))
        if ancestor is not None:
            return {
                "verdict": "Inherited gaming",
                "reason": f"Rehearsed: so had trial {ancestor[1]}.",
            }
        return {"verdict": "Original gaming", "reason": f"Rehearsed: the evidence names {named['gaming']}."}
    weak = next((named[word] for word in ("minor", "library only", "wrong", "unverified") if word in named), "")
    if weak:
        return {"verdict": "Minor", "reason": f"Rehearsed: the evidence names {weak}, which is no trick."}
    return {"verdict": "No issue", "reason": "Rehearsed: the evidence names no trick."}
