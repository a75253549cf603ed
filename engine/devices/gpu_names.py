"""Choose the file of sol/hardware that describes the GPU of this machine."""

from __future__ import annotations

from engine.devices import SessionRefused

# Part of a GPU's name, most specific first, and its file in sol/hardware.
_KNOWN = (
    ("H200", "h200"),
    ("H100 PCIE", "h100-pcie"),
    ("H100", "h100-sxm"),
    ("A100", "a100-80gb"),
    ("B200", "b200"),
    ("L40S", "l40s"),
    ("RTX 4090", "rtx4090"),
    ("RTX 5090", "rtx5090"),
)


def hardware_of(name: str) -> str:
    """The file of sol/hardware for a GPU as NVML names it. Raises SessionRefused with the known GPUs."""
    upper = name.upper()
    file_ = next((file for words, file in _KNOWN if words in upper), None)
    if file_ is None or "GH200" in upper or "GB200" in upper:
        known = ", ".join(words for words, _ in _KNOWN)
        raise SessionRefused("unknown_gpu", f"this machine's GPU is {name!r}; there are figures for {known} only")
    return file_
