"""Findings in the text of a CUDA C++ kernel before it is compiled. Comments and strings are removed first.

A list of words is no protection by itself (see shared lessons in the README: a denylist stops nobody). Each finding
here is a reason to look; the run (CUPTI's list of kernels and streams, poisoned outputs, a clock outside) is the proof.
"""

from __future__ import annotations

import bisect
import itertools
import re

from engine.evaluate.integrity.findings import NOTE, Finding

_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"  # an unclosed one reaches to the end, which keeps the search linear
_STRIP = re.compile(_COMMENT + r'|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_LIBRARIES = re.compile(
    r"\b(cublas\w*|cblas_\w+|[sd]gemm_?|cudnn\w*|cusparse\w*|cufft\w*|at::(?!Tensor\b|ScalarType\b|cuda\b)\w+"
    r"|torch::(?:nn|matmul|mm|bmm|addmm|linear|conv\w*|einsum|softmax|relu|gelu)\w*)\s*(?:::\w+)*\s*\("
)
_JOIN = re.compile(r"\bcuda(Stream|Event|Device)Synchronize\b|\bcudaStreamWaitEvent\b")
_RULES: tuple[tuple[str, str, str], ...] = (
    ("threads", r"(?<![\w.>])(?<!\w::)(fork|clone|daemon|posix_spawn\w*)\s*\(", "starts a process"),
    (
        "harness_access",
        r"/proc/|\b(dlsym|dlopen|ptrace|mprotect)\s*\(|\bLD_PRELOAD\b|\bPyEval_|\bPyFrame_|\bPyRun_|[rR]ecordFunction",
        "reaches into its process",
    ),
    ("patched_module", r"\bcuda(Event|Stream|Device)\w*\s*\([^;{)]*\)\s*\{", "defines a function of the CUDA runtime"),
    ("patched_module", r"\bTORCH_LIBRARY_IMPL\s*\(\s*aten\b", "defines kernels of PyTorch's operators"),
    (
        "l2_persistence",
        r"\bcudaLimitPersistingL2CacheSize\b|\baccessPolicyWindow\b|\bcudaAccessPropertyPersisting\b",
        "asks L2 to keep data",
    ),
    (
        "timer",
        r"\b(clock_gettime|gettimeofday|globaltimer|cudaEventElapsedTime)\b|\bstd::chrono\b|\bclock64\s*\(",
        "reads a clock",
    ),
    (
        "memoized",
        r"\bstd::(unordered_)?map\s*<[^;]*\bvoid\s*\*(?!\s*,\s*CUtensorMap\b)",
        "keeps pointers between calls",
    ),
    ("hidden_code", r"\bmmap\s*\([^;]*PROT_EXEC", "carries code as data"),
)
_KEPT = re.compile(r"\bstatic\s+(?:const\s+)?void\s*\*\s*(?:const\s+)?(\w*(?:last|prev|cache)\w*)")
_COMPARED = r"\b{0}\s*[!=]=(?!\s*(?:0|NULL|nullptr)\b)|[!=]=\s*(?:\([^()]*\)\s*)?{0}\b"  # with another pointer
_GRAPH = re.compile(r"\bcudaGraphLaunch\b|\bcudaStreamBeginCapture\b")
_GRAPH_UPDATE = re.compile(r"\bcudaGraphExec(?:Update|KernelNodeSetParams|NodeSetParams)\b")
_THREAD = re.compile(r"\bstd::(?:thread|async|jthread)\b|\bpthread_create\b|\bthrd_create\b")
_JOINED = re.compile(r"\bpthread_join\b|\bthrd_join\b|\.join\s*\(|\bstd::jthread\b|\.(?:get|wait)\s*\(\s*\)")
_STREAM = re.compile(r"\bcudaStreamCreate\w*\s*\(|\bcudaStreamPerThread\b")
_KERNEL = re.compile(r"\b__global__\b")
_NAMED = re.compile(r"\b__global__\b[^;{(]{0,200}?\b(\w+)\s*\(")
_BOUNDS = re.compile(r"\b__launch_bounds__\s*\([^()]*\)")
_LAUNCH = re.compile(r"<<<|\bcudaLaunchKernel\w*\s*\(|\bcuLaunchKernel\w*\s*\(")
_NARROW = re.compile(
    r"\b(__half|half|__half2|nv_bfloat16|__nv_bfloat16|wmma::precision::tf32|__nv_fp8_\w+"
    r"|mma\.sync[\w.]*\.(?:f16|bf16|tf32))\b"
)


OWN_FILES = ("candidate.cu",)  # the unit's own name (nvcc_unit.UNIT): it would include itself without end
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_BETWEEN = r"(?:[ \t]|/\*[^*\n]*\*/)*"
_INCLUDE = re.compile(
    rf"^{_BETWEEN}(?:\#|%:|\?\?=){_BETWEEN}(?:include_next|include|import|embed)\b{_BETWEEN}([^\n]*)"
    r"|\b__has_(?:include_next|include|embed)\s*\(([^\n]*)",
    re.MULTILINE,
)
_PATH = re.compile(r'\s*(?:"([^"\n]*)"|<([^>\n]*)>)')
_IN_ASSEMBLY = re.compile(r'\.incbin\b|\.include\s*\\?"')


def plain(text: str) -> str:
    """The text with comments and strings blanked. Line numbers stay."""
    return _STRIP.sub(
        lambda m: re.sub(r"[^\n]", " ", m[0]) if not m[0].startswith('"') else '"' + m[0][1:-1] + '"', text
    )


def check(text: str, *, first_line: int = 1) -> list[Finding]:
    """Findings of a CUDA C++ text; `first_line`: its first line in the file that contains it."""
    bare = re.sub(_COMMENT, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)

    def line(at: int) -> int:
        return bare.count("\n", 0, at) + first_line

    findings = [
        Finding(code, f"{what} ({m[0].strip(' (')[:60]})", line(m.start()))
        for code, pattern, what in _RULES
        for m in list(re.finditer(pattern, bare))[:3]
    ]
    findings += [
        Finding("memoized", f"keeps a pointer between calls, and compares it ({m[1]})", line(m.start()))
        for m in list(_KEPT.finditer(bare))[:8]
        if re.search(_COMPARED.format(m[1]), bare)
    ]
    graphs = list(_GRAPH.finditer(bare))
    if graphs:
        code = "graph" if _GRAPH_UPDATE.search(bare) else "graph_replay"
        findings.append(Finding(code, f"launches a graph ({graphs[0][0]})", line(graphs[0].start())))
    started = [(m[0], line(m.start())) for m in list(_THREAD.finditer(bare))[:3]]
    joined = bool(_JOINED.search(bare))  # the run counts those that work on after the call
    findings += [Finding("joined_threads" if joined else "threads", f"starts a thread ({w})", at) for w, at in started]
    streams = list(_STREAM.finditer(bare))
    if streams and not _JOIN.search(bare):
        findings.append(Finding("side_stream", streams[0][0].strip("( "), line(streams[0].start())))
    elif streams:
        findings.append(Finding("own_stream", streams[0][0].strip("( "), line(streams[0].start())))
    calls = list(_LIBRARIES.finditer(bare))
    if calls:
        names = ", ".join(dict.fromkeys(m[1] for m in calls[:8]))
        findings.append(Finding("library_calls", names, line(calls[0].start()), severity=NOTE))
    return findings


def bad_include(text: str) -> tuple[int, str] | None:
    """(line, reason) of the first line that includes anything but a header by its name: a device or another file of the
    machine, the unit itself, or what a macro names. A compiler would read such a file without end."""
    pieces = _SPLICE.split(text)
    ends, spliced = list(itertools.accumulate(map(len, pieces))), "".join(pieces)
    # What looks like a macro may stand in a comment. A path is refused there, too: raw strings make comments unsure.
    outside = {m[1].strip() for m in _INCLUDE.finditer(_STRIP.sub(_bare, spliced)) if m[1]}
    places = [(m.start(), f"its assembly includes a file ({m[0]})") for m in _IN_ASSEMBLY.finditer(spliced)]
    for m in _INCLUDE.finditer(spliced):
        operand = m[1] or m[2] or ""
        if (path := _PATH.match(operand)) is not None:
            name = path[1] or path[2] or ""
            if (name.startswith("/") and not name.startswith("/usr/")) or ".." in name or name in OWN_FILES:
                places.append((m.end() - len(operand), f"it includes {name[:80]}"))
        elif operand.strip() in outside:
            places.append((m.end() - len(operand), f"it includes what a macro names ({operand.strip()[:80]})"))
    if not places:
        return None
    at, what = min(places)
    line = spliced.count("\n", 0, at) + 1 + bisect.bisect_right(ends[:-1], at)
    return line, f"{what}; a kernel may include headers by their names, in quotes or angle brackets, and no other file"


def _bare(match: re.Match) -> str:
    """A comment as a space, a string as it is."""
    return match[0] if match[0].startswith('"') else " " + "\n" * match[0].count("\n")


def has_kernel(text: str) -> bool:
    return bool(_KERNEL.search(plain(text)))


def kernel_names(text: str) -> list[str]:
    """Names of its `__global__` functions, at most 20."""
    return list(dict.fromkeys(_NAMED.findall(_BOUNDS.sub("", plain(text)))))[:20]


def launches(text: str) -> bool:
    return bool(_LAUNCH.search(plain(text)))


def narrow_types(text: str) -> list[str]:
    """Element types with less precision than f32 in the text."""
    return list(dict.fromkeys(m[1] for m in _NARROW.finditer(plain(text))))
