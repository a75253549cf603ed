"""The engine's own process never loads torch: only confined children and workers do."""

import subprocess
import sys


def test_tracing_and_the_reference_need_no_torch_in_the_engine():
    code = (
        "import sys, engine.trace, engine.sandbox, engine.evaluate.reference.module_process\n"
        "import engine.evaluate.correctness.inputs\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules and 'django' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
