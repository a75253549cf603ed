"""Turn an exception of a pasted module into one sentence with a stable code and the line of the pasted text."""

from __future__ import annotations

import errno
import linecache
import re
import sys

from engine.sandbox.channel import PASTED
from engine.sandbox.watch import Blocked
from engine.trace.load import Bad

_SHAPES = re.compile(
    r"cannot be multiplied|size mismatch|must match the (existing )?size|same (number of )?(dimensions|size|shape)"
    r"|shapes? .*(invalid|mismatch|incompatible|not aligned)|is invalid for input of size|not broadcastable"
    r"|expected (input|weight).*(channels|dimension)|Sizes of tensors must match|normalized_shape|contraction"
    r"|incompatible.*shape|Expected size|dimension.*must match|could not be broadcast|doesn't match",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory|Unable to allocate", re.IGNORECASE)
_CUDA = re.compile(
    r"not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|CUDA driver|CUDA initialization|no CUDA-capable|"
    r"accelerator device when none|\b0 active drivers|cudaError(NoDevice|InsufficientDriver)|CUDA_ERROR_NO_DEVICE|"
    r"CUDA_HOME environment|libcuda\.so",
    re.IGNORECASE,
)
_DATA = re.compile(r"data.dependent|_local_scalar_dense|Could not (guard|extract)|unbacked", re.IGNORECASE)
# What an error's text shows of tensors that are not plain ones in memory: (pattern, code, what, way out).
_FORMS = (
    (
        re.compile(r"[Nn]ested_?[Tt]ensor|torch\.nested\."), "not_covered", "uses a nested tensor",
        "pad the sequences with torch.nn.utils.rnn.pad_sequence, and mask what is beyond their ends.",
    ),
    (
        re.compile(r"Sparse (CSR|CSC|BSR|BSC)|Sparse(Csr|Compressed|CPU|CUDA)\b"), "not_covered",
        "uses a sparse tensor", "give a dense one, .to_dense().",
    ),
    (
        re.compile(r"Creating a new Tensor subclass"), "leaves_torch", "makes a tensor of a class of its own",
        "compute with plain tensors.",
    ),
    (
        re.compile(r"Cannot access data pointer of Tensor|invalid python storage"), "cannot_trace",
        "reads the memory of a tensor (a deepcopy, data_ptr or a kernel of another package)",
        "copy modules in __init__, and compute with torch's functions.",
    ),
)  # fmt: skip
_IMPORTS = {"torch": "import torch", "nn": "import torch.nn as nn", "F": "import torch.nn.functional as F"}
_DATA_TYPES = {"DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException"}


def pasted_line(error: BaseException) -> int | None:
    """The innermost line of the pasted text in the error's traceback."""
    line, tb = None, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == PASTED:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _chain(error: BaseException) -> list[BaseException]:
    errors: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and not any(current is e for e in errors) and len(errors) < 10:
        errors.append(current)
        cause, context = current.__cause__, None if current.__suppress_context__ else current.__context__
        current = context if cause is None else cause
    return errors


def first_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error's own message, without torch's appended node dumps and advice."""
    text = str(error).strip()
    lines = [t.strip() for t in text.splitlines() if t.strip()]
    return (lines[0] if lines else type(error).__name__)[:limit].rstrip(".")


def data_dependent(error: BaseException) -> bool:
    return any(type(e).__name__ in _DATA_TYPES or _DATA.search(_text(e)[:2000]) for e in _chain(error))


def _text(error: BaseException) -> str:
    """The error's message, "" if it cannot be made: its __str__ is the text's."""
    try:
        return str(error)
    except Exception:
        return ""


def quoted(line: int | None) -> str:
    """`Line 10, "y = x[x > 0]"`: the number and the text of a line."""
    text = linecache.getline(PASTED, line).strip() if line else ""
    return f"Line {line}, `{text if len(text) <= 70 else text[:67] + '...'}`," if text else f"Line {line}"


def depends_on_values(op: str, line: int | None, doing: str, resizes: bool = False) -> Bad:
    """The refusal of an operation that depends on values. `op`: ATen's name, "" if unknown; `resizes`: the size of its
    result depends on values; otherwise its result is a Python value."""
    at = quoted(line) if line else f"Calling {doing}"
    text = linecache.getline(PASTED, line) if line else ""
    if op in ("nonzero", "nonzero_numpy") and "nonzero" not in text:
        op = "where(condition)" if re.search(r"\bwhere\(", text) else "indexing with a mask"
    if not resizes and op not in ("", "item", "_local_scalar_dense"):
        what = f"reads the values of a tensor ({op.strip('_')})"
    elif op in ("", "item", "_local_scalar_dense"):
        word = next(
            (w for w in ("item", "tolist", "int", "float", "bool", "range") if re.search(rf"\b{w}\(", text)), ""
        )
        word = word or next((w for w in ("while", "if", "assert") if re.match(rf"\s*(el)?{w}\b", text)), "")
        what = f"reads the value of a tensor ({word or 'item'})"
    else:
        what = f"uses {op.strip('_').rstrip('2')}, which makes a tensor whose size depends on the values of another"
    return Bad(
        "data_dependent",
        f"{at} {what}; the operations of a program may depend on shapes only. {_way_out(text.strip(), op, resizes)}",
        line,
        of_size=resizes or op == "equal",  # torch.istft compares its window
    )


def _way_out(text: str, op: str, resizes: bool) -> str:
    """What to write instead of a line that reads values."""
    if text.startswith("assert"):
        return "Leave the check out of the module."
    if "while_loop(" in text:
        return "Let its condition depend on a count of steps that begins at a number."
    if text.startswith("print("):
        return "Leave the print out of the module."
    if "pack_padded" in text or "pack_padded" in op or "pack_sequence" in text:
        return "Give the network the padded tensor, without packing it."
    if re.match(r"(el)?if\b.*(\.any\(|\.numel\(|len\(|\.sum\(\)\s*[>=!])", text):
        return "Leave the `if` out, where an empty selection changes nothing; else use torch.where for the choice."
    if ".item()" in text and not re.match(r"(el)?if\b|while\b|for\b", text):
        return "Leave .item() out: a tensor of one element computes as a number does."
    if ".tolist()" in text or op == "bincount" or (resizes and op.startswith("nonzero") and "nonzero" in text):
        return (
            "Of experts or groups, go through all of them in a `for` over their number, and choose the rows of each by "
            "torch.where(chosen == i); rows may be none."
        )
    if re.search(r"\b(int|range)\(", text) or re.search(r"\[[^\]]*:[^\]]*\]", text):
        return "Take the size from a shape, such as x.shape[1], and mask what is beyond."
    if resizes and op in ("indexing with a mask", "where(condition)", "nonzero", "masked_select"):
        return "Compute every row and multiply by the mask, so that rows that were not chosen count as 0."
    return "Use torch.where for the choice, or leave it out of the module."


def _op_of(chain: list[BaseException]) -> str:
    """ATen's name of the operation in the first error that has one, else ""."""
    for e in chain:
        schema = getattr(getattr(e, "func", None), "_schema", None)
        if schema is not None:
            return schema.name.split("::")[-1]
    return ""


def _on_gpu() -> bool:
    """Return True in a process that has a GPU: an error that names CUDA (a kernel's, a compiler's) is not the lack of
    one."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


def explain(error: BaseException, doing: str) -> Bad:
    """The refusal for an error. `doing`: the call that raised it, e.g. "get_inputs()" or "forward"."""
    chain = _chain(error)
    for e in chain:
        if isinstance(e, Bad):
            return e
        if isinstance(e, Blocked):
            return Bad(e.code, f"Line {e.line} {e.reason}.", e.line)
    line = next((n for n in map(pasted_line, chain) if n is not None), None)
    at = f"Line {line}" if line is not None else f"Calling {doing}"
    if isinstance(error, SyntaxError) and error.filename == PASTED:
        return Bad("syntax_error", f"Line {error.lineno}: {error.msg}.", error.lineno)
    if isinstance(error, ModuleNotFoundError) and error.name:  # a package may raise one without a name
        return Bad("missing_package", f"{at} imports {error.name!r}, which is not installed in the sandbox.", line)
    if isinstance(error, SystemExit):
        return Bad("exited", f"{at} ends the Python process (exit).", line)
    if isinstance(error, KeyboardInterrupt):
        return Bad("exited", f"{at} interrupts the Python process.", line)
    if isinstance(error, NameError) and error.name in _IMPORTS:
        return Bad("module_raised", f"{at}: {error.name!r} is not imported; add `{_IMPORTS[error.name]}`.", line)
    try:
        text = str(error)
    except Blocked as e:
        return Bad(e.code, f"Line {e.line} {e.reason}.", e.line)
    except Exception as e:
        inner = pasted_line(e)
        what = f"{at} raised {type(error).__name__}, whose __str__ raised {type(e).__name__}"
        return Bad("module_raised", f"{what} in line {inner}." if inner else f"{what}.", inner or line)
    if "CUDA out of memory" in text[:2000]:
        return Bad("gpu_memory", f"{at} asks for more memory than the GPU has: {first_line(error)}.", line)
    no_memory = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if no_memory or _MEMORY.search(text[:2000]):
        return Bad("memory_limit", f"{at} asks for more memory than is available: {first_line(error)}.", line)
    if (isinstance(error, OSError) and error.errno == errno.EAGAIN) or "can't start new thread" in text:
        return Bad("process_limit", f"{at} starts more processes or threads than the sandbox allows.", line)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return Bad("disk_limit", f"{at} writes more than the sandbox lets it write.", line)
    if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.ENETUNREACH, errno.EROFS):
        return Bad("sandbox_blocked", f"{at} is not allowed in the sandbox: {first_line(error)}.", line)
    if _CUDA.search(text[:2000]) and not _on_gpu():
        return Bad(
            "asks_for_cuda",
            f'{at} asks for CUDA: leave `.cuda()` and `device="cuda"` out. If the engine has a GPU, it moves the '
            "module and its inputs there.",
            line,
        )
    if data_dependent(error):
        resizes = any(type(e).__name__ == "DynamicOutputShapeException" for e in chain)
        return depends_on_values(_op_of(chain), line, doing, resizes)
    place = quoted(line) if line else at
    for pattern, code, what, way in _FORMS:
        shown = text[:2000] + (linecache.getline(PASTED, line) if line and code == "not_covered" else "")
        if pattern.search(shown):
            return Bad(code, f"{place if line else 'The module'} {what}, which the tracer cannot follow: {way}", line)
    if unknown := next((e for e in chain if type(e).__name__ == "UnsupportedOperatorException"), None):
        op = _op_of([unknown]) or first_line(unknown)
        return Bad("not_covered", f"{place} uses {op}, which the tracer does not know; leave it out.", line)
    if packed := re.search(r"__torch__\.torch\.classes\.([\w.]+).*__obj_flatten__", text[:2000]):
        reason = (
            f"{place if line else 'The module'} uses an object of PyTorch's C++ ({packed[1]}), as quantised layers do"
        )
        way = (
            "give the module before it is quantised, or with its int8 weights in buffers and their scales beside them."
        )
        return Bad("not_covered", f"{reason}, which the tracer does not follow: {way}", line)
    if "is not supported for tensor subclasses" in text:  # .numpy() and .tolist() of a fake tensor
        return Bad(
            "leaves_torch",
            f"{place} takes numbers out of a tensor ({first_line(error).split()[0]}), which the tracer cannot "
            "follow; use torch's functions.",
            line,
        )
    if "does not require grad" in text[:2000]:
        reason = f"{place} asks for a gradient, and forward runs without any here, as programs are for inference"
        way = "put it into `with torch.enable_grad():`, with inputs that .requires_grad_()."
        return Bad("module_raised", f"{reason}: {way}", line)
    if isinstance(error, (RuntimeError, ValueError, IndexError)) and _SHAPES.search(text[:2000]):
        return Bad("shape_mismatch", f"{at}: the shapes do not fit: {first_line(error)}.", line)
    kind = type(error).__name__
    if "same dtype" in text[:2000]:
        text = f"{first_line(error)}. Convert one side with .to(...)."
        return Bad("module_raised", f"{at} raised {kind}: {text}", line)
    return Bad("module_raised", f"{at} raised {kind}: {first_line(error)}." if text else f"{at} raised {kind}.", line)


_PRODUCTS = {
    *("linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addmv"),
    *(f"conv{transposed}{n}d" for transposed in ("", "_transpose") for n in (1, 2, 3)),
}


def mixed_product(graph: dict) -> tuple[str, int | None] | None:
    """What PyTorch says of the first product whose operands differ in their element type, and its line; None if it
    takes them all. A fake tensor's product takes any."""
    dtypes = {t["name"]: t["dtype"] for t in graph["tensors"]}
    for op in graph["ops"]:
        kinds = list(dict.fromkeys(dtypes[name] for name in op["inputs"]))
        if op["op"] in _PRODUCTS and len(kinds) > 1:
            return f"PyTorch has no {op['op']} of {' and '.join(kinds)}: convert one side with .to(...).", op["line"]
    return None
