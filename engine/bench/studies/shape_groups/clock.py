"""What the study times by the clock of raw kernels, beside the sessions: where, and what becomes of a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.devices import SessionRefused, TrialError
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.process.judge import JudgeLost
from engine.evaluate.integrity.verify import Verifier


def on_gpu(source: str) -> Verifier:
    return Verifier(source, "cuda", local_user=True)


def timed_or_why(time: Callable[[], dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """What `time` returns; if no time can be taken, `facts` with `ms` None and the reason as `why`."""
    try:
        return time()
    except (SessionRefused, TrialError, CandidateEnded) as e:
        return {**facts, "ms": None, "why": e.reason}
    except JudgeLost as e:
        return {**facts, "ms": None, "why": f"the process that times it was lost: {e}"}


__all__ = ["on_gpu", "timed_or_why"]
