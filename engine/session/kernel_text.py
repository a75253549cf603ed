"""Identify a pasted candidate by its text: its language, and the entry that the judge calls.

This module uses regular expressions that take linear time and no parser, so the web process can apply it to any text.
The sandbox (engine.evaluate.integrity) tests whether the text loads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LANGUAGES = {"cuda": "CUDA C++", "python": "Python"}
CLASSES = ("f32", "tf32", "f16", "bf16")  # precision classes that a raw kernel may declare

CUDA_ENTRY = 'extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream)'
NO_ENTRY = {
    "python": "define `class ModelNew(nn.Module)`, built and called as the module is, or a function "
    "`kernel(*inputs, *parameters_and_buffers)`",
    "cuda": f"define `{CUDA_ENTRY}`; `in` holds the inputs, then the parameters and buffers",
}
EXAMPLES = {
    "python": """\
import torch, triton, triton.language as tl

@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def kernel(x):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
""",
    "cuda": """\
__global__ void twice(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
  int64_t n = in[0].shape[0] * in[0].shape[1];
  twice<<<(n + 255) / 256, 256, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, n);
  return cudaGetLastError();
}
""",
}

# Multi-line strings and comments, which hold no code; and `line` strings, in which neither begins. An unclosed one
# extends to the end of the text, or of the line, which keeps the search linear.
_APART = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\Z)|'
    + r"'''(?:[^'\\]|\\.|'(?!''))*(?:'''|\Z)"
    + r"|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)"
    r"|//[^\n]*|^[ \t]*#(?![ \t]*(?:include|define|pragma|if|ifdef|ifndef|endif|else|elif|undef|error)\b)[^\n]*"
    r"|(?P<line>\"(?:[^\"\\\n]|\\.)*(?:\"|$)|'(?:[^'\\\n]|\\.)*(?:'|$))",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = re.compile(
    r"^(?:import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|@\w"
    r"|class[ \t]+\w+[ \t]*(?:\([^()\n]*\))?[ \t]*:[ \t]*(?:#[^\n]*)?$)",
    re.MULTILINE,
)
_CUDA = re.compile(
    r"^[ \t]*#[ \t]*(?:include[ \t]*[<\"]|pragma\b|define\b)|\b__(?:global|device|host|shared)__\b"
    r"|\bextern[ \t]+\"C\"|<<<|^[ \t]*template[ \t]*<",
    re.MULTILINE,
)
_PROGRAM = re.compile(r"^[ \t]*program[ \t]+\w+[ \t]*\(", re.MULTILINE)
_DEFINED = {
    "python": re.compile(r"^(?:async[ \t]+)?(?:class|def)[ \t]+(\w+)", re.MULTILINE),
    "cuda": re.compile(r"^[^\n;{}()#]{0,200}?\b(\w{1,80})[ \t]*\([^;{}]{0,800}\)\s{0,80}\{", re.MULTILINE),
}
_MODULE = re.compile(r"^class[ \t]+Model\b", re.MULTILINE)


@dataclass(frozen=True)
class Complaint:
    """Why a text cannot be tried as a kernel. `code`: empty | unknown_language | wrong_language | no_entry; `reason`
    and `fix`: a sentence each; `example`: a short valid text, or ""; `there`: of no_entry, what the text defines
    instead."""

    code: str
    reason: str
    fix: str
    example: str = ""
    there: str = ""

    @property
    def evidence(self) -> str:
        """The text for a finding, whose code already says that there is no entry."""
        return f"{self.there}. {self.fix}" if self.there else f"{self.reason} {self.fix}"


def bare(text: str) -> str:
    """The text with comments and multi-line strings blanked. Line numbers stay."""
    return _APART.sub(lambda m: m[0] if m["line"] is not None else _blank(m[0]), text)


def _blank(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n")) if "\n" in text else " " * len(text)


def language_of(text: str) -> str:
    """program (of μCUTLASS) | cuda | python, or "" if the text matches none."""
    code = bare(text)
    python, cuda = _PYTHON.search(code), _CUDA.search(code)
    if python and (not cuda or python.start() < cuda.start()):
        return "python"
    if cuda:
        return "cuda"
    return "program" if _PROGRAM.search(code) else ""


def has_entry(text: str, language: str, entry: str = "") -> bool:
    """Return True if the text seems to define what the judge calls. `entry`: its name, if not a usual one."""
    code = bare(text)
    if language == "cuda":
        name = re.escape(entry or "run")
        return bool(re.search(rf"\b{name}[ \t\n]*\(", code)) and bool(re.search(r"\bextern[ \t\n]+\"C\"", code))
    names = re.escape(entry) if entry else "ModelNew|kernel"
    defined = rf"^[ \t]*(?:class|def|async[ \t]+def)[ \t]+(?:{names})\b|^[ \t]*(?:{names})[ \t]*(?::[^=\n]*)?=(?!=)"
    if re.search(defined, code, re.MULTILINE):
        return True
    imports = (line for line in code.splitlines() if line.lstrip().startswith(("import ", "from ")))
    return any(re.search(rf"\b(?:{names})\b|\*", line) for line in imports)


def complaint(text: str, language: str, entry: str = "") -> Complaint | None:
    """What is wrong with `text` as a kernel in `language` (cuda | python), as far as the text shows; None if
    nothing."""
    if not text.strip():
        return Complaint("empty", "There is no kernel.", "Paste a CUDA C++ or Python kernel.")
    looks = language_of(text)
    if looks == "program":
        return Complaint(
            "wrong_language", f"This is a μCUTLASS program, and it was sent as {LANGUAGES[language]}.",
            "Choose μCUTLASS program.",
        )  # fmt: skip
    if looks and looks != language:
        return Complaint(
            "wrong_language", f"This reads as {LANGUAGES[looks]}, and it was sent as {LANGUAGES[language]}.",
            f"Choose {LANGUAGES[looks]}.", EXAMPLES[language],
        )  # fmt: skip
    if not has_entry(text, language, entry):
        return no_entry(text, language, entry)
    return None


def no_entry(text: str, language: str, entry: str = "") -> Complaint:
    """The complaint that the judge has nothing to call."""
    code, fix = bare(text), f"{NO_ENTRY[language][0].upper()}{NO_ENTRY[language][1:]}."
    there = list(dict.fromkeys(_DEFINED[language].findall(code)))[:4]
    what = f"the text defines {', '.join(there)}" if there else "the text defines nothing that can be called"
    if entry:
        what, fix = f"the text does not define `{entry}`", "Define it, or name the entry that the text has."
    elif language == "python" and _MODULE.search(code):
        what = "the text defines `Model`, which is the module itself"
        fix = f"Rename it to `ModelNew`, or {NO_ENTRY['python']}."
    elif language == "cuda" and "run" in there:
        what = '`run` is not declared extern "C", so that its name cannot be found'
        fix = f"Declare it as `{CUDA_ENTRY}`."
    return Complaint("no_entry", f"There is no entry: {what}.", fix, "" if entry else EXAMPLES[language], what)


__all__ = [
    "CLASSES", "EXAMPLES", "LANGUAGES", "NO_ENTRY", "Complaint", "complaint", "has_entry", "language_of", "no_entry",
]  # fmt: skip
