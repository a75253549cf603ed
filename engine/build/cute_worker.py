"""The process that compiles `cute` modules: `python -m engine.start engine.build.cute_worker`, JSON lines over pipes.

It imports torch, CuTe DSL and quack once (7 to 12 s) and then takes 1 to 2 s per kernel, or milliseconds if quack's
disk cache has it. It sees no GPU and needs none. Requests: {op: warm}, {op: stages, path} and {op: build, path,
stages}.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path

from engine import start
from engine.build import cubin
from engine.jsonprocess import serve

SMS = 132  # of an H200; only a count that no launch here reads depends on it


def import_generated(path: str | Path):
    """A generated `cute` module from its file. The file must stay: CuTe DSL reads the text of kernels from it."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plan_without_device() -> None:
    """Let quack plan a kernel where there is no GPU. A plan also counts the clusters that fit the device; only a launch
    reads that, and here there is none."""
    import torch
    from quack.gemm_runtime import host

    if not torch.cuda.is_available():
        host.get_max_active_clusters = lambda size: SMS // size


class Builder:
    """Compiles modules and reports the resources of each stage.

    quack's cache computes a key for every kernel; recording these keys tells which cached object belongs to which
    stage. The object does not contain a GEMM's dynamic shared memory and pipeline depth. They are read from quack's
    kernel object during the compilation and stored beside the cached object.
    """

    def __init__(self) -> None:
        started = time.perf_counter()
        with start.importing():  # this is slow; a warm worker does it once
            import quack.cache.jit as jit
            import quack.epilogue.frontend  # noqa: F401
            import torch  # noqa: F401
            from quack.gemm_runtime import host
            from quack.gemm_sm90 import GemmSm90

        plan_without_device()
        self._jit, self._gemm = jit, host._compile_gemm_epi
        self._keys: list[str] = []
        self._traced: list[object] = []
        key_to_hash, setup = jit._key_to_hash, GemmSm90._setup_attributes

        def recorded_key(key):
            name = key_to_hash(key)
            self._keys.append(name)
            return name

        def recorded_setup(gemm, *args, **kwargs):
            self._traced.append(gemm)
            return setup(gemm, *args, **kwargs)

        jit._key_to_hash = recorded_key
        GemmSm90._setup_attributes = recorded_setup
        self.import_seconds = time.perf_counter() - started

    def warm(self, request: dict) -> dict:
        return {"import_seconds": round(self.import_seconds, 3), "pid": os.getpid()}

    def stages(self, request: dict) -> dict:
        """{stages}: the names of the stages of the module at `path`, in order; of those that seem to have the same
        kernels the first alone."""
        first: dict[str, str] = {}
        for name, (stage, *_) in import_generated(request["path"]).STAGES.items():
            gemm = getattr(stage, "epilogue", None)
            of_gemm = gemm is not None and f"{gemm.semantic_digest} {stage.config}"
            first.setdefault(of_gemm or getattr(stage, "version", name), name)
        return {"stages": list(first.values())}

    def build(self, request: dict) -> dict:
        """{seconds, cached, resources, objects}: compile each stage of the module at `path`, or those of `stages`."""
        started = time.perf_counter()
        module = import_generated(request["path"])
        resources, objects, cached = [], [], True
        for stage in request.get("stages", module.STAGES):
            self._keys.clear()
            self._traced.clear()
            for compiled in (self._gemm, *vars(module).values()):
                # quack computes no key for a kernel in memory, and kernels would accumulate.
                if callable(getattr(compiled, "cache_clear", None)) and hasattr(compiled, "cache_info"):
                    compiled.cache_clear()
            before = self._folder()
            present = {p.name for p in before.glob("*.o")}
            self._watch_attention()
            module.build((stage,))
            for key in dict.fromkeys(self._keys):
                path = before / f"{key}.o"
                fresh = path.name not in present
                cached &= not fresh
                if fresh:
                    self._remember(path)
                with contextlib.suppress(OSError):
                    os.utime(path)  # marks the object as used, for the cache's pruning
                objects.append(f"{before.name}/{path.name}")
                resources += _resources(stage, path)
        seconds = time.perf_counter() - started
        return {"seconds": round(seconds, 4), "cached": cached, "resources": resources, "objects": objects}

    def _watch_attention(self) -> None:
        """Read the shared memory of flash-attn-4's kernel as that of a GEMM is read. The package is imported (in 6 s)
        by the modules that use it alone."""
        flash = sys.modules.get("flash_attn.cute.flash_fwd_sm90")
        kind = flash and flash.FlashAttentionForwardSm90
        if kind is None or hasattr(kind, "ucutlass_recorded"):
            return
        storage = kind._get_shared_storage_cls

        def recorded_storage(kernel):
            own = storage(kernel)
            bytes_ = own.size_in_bytes()
            self._traced.append({"shared_dynamic": bytes_, "stages": kernel.num_stages, "threads": kernel.num_threads})
            return own

        kind._get_shared_storage_cls, kind.ucutlass_recorded = recorded_storage, True

    def _folder(self) -> Path:
        folder = self._jit.get_cache_path() / self._jit._compute_source_fingerprint()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _remember(self, path: Path) -> None:
        if not self._traced:
            return
        gemm = self._traced[-1]
        facts = (
            gemm
            if isinstance(gemm, dict)
            else {
                "shared_dynamic": int(gemm.shared_storage.size_in_bytes()),
                "stages": int(gemm.ab_stage),
                "threads": int(gemm.threads_per_cta),
            }
        )
        partial = path.with_suffix(f".json.{os.getpid()}")
        partial.write_text(json.dumps(facts))
        os.replace(partial, path.with_suffix(".json"))


def _resources(stage: str, path: Path) -> list[dict]:
    """[{kernel, stage, registers, shared_bytes, spill_bytes, ...}] of one cached object."""
    try:
        facts = json.loads(path.with_suffix(".json").read_text())
    except (OSError, ValueError):
        facts = {}
    return [
        {
            "kernel": short_name(k.name),
            "stage": stage,
            "registers": k.registers,
            "shared_bytes": k.shared_static + facts.get("shared_dynamic", 0),
            "spill_bytes": k.stack_bytes,
            "instructions": k.instructions,
            **{name: facts[name] for name in ("stages", "threads") if name in facts},
        }
        for k in cubin.kernels(path.read_bytes())
    ]


_QUACK = re.compile(r"frontendGemmMod_(\w+?)_[0-9a-f]{16}_")
_FLASH = re.compile(r"(FlashAttentionForwardSm\d+)_object_at")
_OWN = re.compile(r"kernel_cutlass_(\w+?)_tensor")


def short_name(symbol: str) -> str:
    """A short name for a kernel's symbol, which has up to 250 characters of types."""
    if match := _QUACK.search(symbol):
        return f"quack GemmSm90 with {match[1]}"
    if match := _FLASH.search(symbol):
        return match[1]
    if match := _OWN.match(symbol):
        return match[1]
    return symbol[:80]


def main() -> None:
    builder = Builder()
    serve({"warm": builder.warm, "stages": builder.stages, "build": builder.build})
