"""A second opinion on a text: kernelguard's published rules, if that package is installed (it is optional).

    pip install kernelguard          # MIT, no dependencies; tested with 0.3.2

It runs in a child of ours with a time limit, because its rules are regular expressions over untrusted text. Its opinion
is shown beside ours and decides nothing: of the zoo's first 99 cheats it names 18, of the first 39 honest kernels none
(`python -m tests.engine.integrity.opinions`); most of the zoo's tricks only show when they run.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys

from engine.evaluate.integrity.findings import Finding

SECONDS = 20.0
PROFILE = "sol-execbench"  # its rules for entries named kernel, forward or run, as ours are
_ASK = """
import json, sys
import kernelguard
if sys.argv[1] in getattr(kernelguard, "BUILTIN_PROFILES", {}):
    kernelguard.configure_runtime(profile=sys.argv[1])
made = kernelguard.analyze_code(sys.stdin.read())
names = [str(p.get("pattern", p) if isinstance(p, dict) else p) for p in made.get("matched_patterns", [])]
print(json.dumps({"classification": str(made.get("classification")), "patterns": list(dict.fromkeys(names))[:8]}))
"""


@functools.cache
def installed() -> bool:
    return importlib.util.find_spec("kernelguard") is not None


def ask(source: str) -> list[Finding]:
    """Its findings as one note; none if it is not installed, does not end, or finds nothing."""
    if not installed():
        return []
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK, PROFILE], input=source, capture_output=True, text=True, timeout=SECONDS
        )
        opinion = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    if opinion["classification"] in ("valid", "clean", "None") or not opinion["patterns"]:
        return []
    return [
        Finding("second_opinion", f"kernelguard: {opinion['classification']}: {', '.join(opinion['patterns'])}"[:300])
    ]
