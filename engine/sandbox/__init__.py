"""Where untrusted code runs: Python children under bubblewrap, with nothing to read, nobody to call, and limits.

    with pool.take() as box:                      # a warm child: torch is already imported
        answer = box.request({"entry": "engine.trace.child", "source": text}, timeout=20)

`Sandbox.strength()` says `full`, or `weak: <why, and how to fix it>`; a weak one refuses text that may be anyone's.
"""

from engine.sandbox.pool import drain, take, warm
from engine.sandbox.process import Sandbox, SandboxEnded

__all__ = ["Sandbox", "SandboxEnded", "drain", "take", "warm"]
