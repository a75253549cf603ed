"""A program's faults as answers of its process: the error, and whether the process is lost."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Wrong(Exception):
    """The program broke a rule. `code` is stable; the message is one sentence."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


def answered(work: Callable[[dict], dict]) -> Callable[[dict], dict]:
    """The request's answer; a program's own faults as {wrong, message, lost}. With `lost` the process is unusable."""

    def answer(request: dict) -> dict:
        try:
            return work(request)
        except Wrong as e:
            return {"wrong": e.code, "message": str(e), "lost": False}
        except torch.OutOfMemoryError as e:  # PyTorch's allocator refuses, and goes on
            message = str(e)[:4000]
        except Exception as e:
            code = cuda_code(e) or _broken()
            if code is None:
                raise
            return {"wrong": code, "message": str(e)[:4000], "lost": True}
        # Here, where nothing refers to the tensors of the request any more. A graph that it left open cannot be ended.
        lost = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        if torch.cuda.is_initialized() and not lost:
            torch.cuda.empty_cache()
        return {"wrong": "out_of_memory", "message": message, "lost": lost}

    return answer


def cuda_code(e: Exception) -> str | None:
    """The code of a CUDA error, or None for another exception."""
    text = str(e).lower().replace("_", " ")
    if isinstance(e, torch.OutOfMemoryError) or "out of memory" in text:
        return "out_of_memory"
    if any(word in text for word in ("illegal memory access", "illegal address", "misaligned address")):
        return "illegal_address"
    if isinstance(e, getattr(torch, "AcceleratorError", ())) or ("cuda" in text and "error" in text):
        return "cuda_error"
    return None


def _broken() -> str | None:
    """The code of an error that the device still holds, whatever was reported."""
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except Exception as e:
            return cuda_code(e) or "cuda_error"
    return None
