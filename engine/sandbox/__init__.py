"""The sandbox for untrusted code: Python children under bubblewrap, without files of ours, network or other processes.

    with pool.take() as box:                      # a warm child: torch is already imported
        answer = box.request({"entry": "engine.trace.child", "source": text}, timeout=20)

`Sandbox.strength()` says `full`, or `weak: <why, and how to fix it>`; a weak one refuses text that does not come from
the local user.
"""

from engine.sandbox.pool import drain, take, warm
from engine.sandbox.process import Sandbox, SandboxEnded

__all__ = ["Sandbox", "SandboxEnded", "drain", "take", "warm"]
