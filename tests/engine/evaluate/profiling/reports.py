"""Reports as Nsight Compute's command line writes them (`--csv --page raw --print-units base`), and a stand-in for ncu
that writes one: no machine of the tests has the counters."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.jsonprocess import python_path

HEAD = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
METRICS = {  # name: (unit, of a product, of a copy)
    "dram__bytes_read.sum": ("byte", "134,217,728", "1,024"),
    "dram__bytes_write.sum": ("byte", "8,388,608", "2,048"),
    "gpc__cycles_elapsed.max": ("cycle", "182,400", "3,100"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "41.27", "80.5"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "33.1", "80.5"),
    "gpu__time_duration.sum": ("ns", "104,320", "2,080"),
    "launch__registers_per_thread": ("register/thread", "168", "32"),
    "sm__inst_executed.avg.per_cycle_active": ("inst/cycle", "1.27", "0.4"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "18.75", "100"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", "71.9", "0"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "69.88", "12.5"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "18.3", "87.2"),
    "smsp__inst_executed.sum": ("inst", "4,210,688", "65,536"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "0.25", "0"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "2.125", "9.5"),
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": ("inst", "1", "1"),
}


SCRIPT = """#!{}
import os, shutil, subprocess, sys
folder, runs, args = {!r}, {!r}, sys.argv[1:]
with open(folder + "/calls", "a") as calls:
    print(args, file=calls)
status = subprocess.call(args[args.index("--force-overwrite") + 1 :]) if runs else {}
if os.path.exists(folder + "/report.txt"):
    shutil.copy(folder + "/report.txt", args[args.index("--log-file") + 1])
print({!r})
sys.exit(status)
"""


def report(kernels=(("sm90_gemm(Params, int)", 1), ("cast_kernel", 2)), metrics=METRICS):
    """The text; `kernels`: names and the column of `metrics` that each takes."""
    rows = [[*HEAD, *metrics], ["" for _ in HEAD] + [unit for unit, *_ in metrics.values()]]
    for number, (name, column) in enumerate(kernels):
        launch = [
            str(number),
            "4711",
            "python3.11",
            "127.0.0.1",
            name,
            "1",
            "7",
            "(384, 1, 1)",
            "(132, 1, 1)",
            "0",
            "9.0",
        ]
        rows.append([*launch, *(values[column] for values in metrics.values())])
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    return "\n".join(["==PROF== Connected to process 4711 (/usr/bin/python3.11)", *lines, ""])


def stand_in(folder: Path, writes: str = "", prints: str = "", status: int | None = None) -> Path:
    """An executable in place of ncu. It notes its arguments in `folder`, runs the program that it is given (with
    `status`: ends with it instead), then writes the report and prints its log."""
    path = folder / "ncu"
    (folder / "report.txt").write_text(writes, encoding="utf-8")
    path.write_text(SCRIPT.format(sys.executable, str(folder), status is None, status, prints), encoding="utf-8")
    path.chmod(0o755)
    return path


def without_quack(folder: Path) -> dict[str, str]:
    """Variables of a launcher whose imports take 2 s: an empty package is in the place of quack, which a program on a
    CPU does not need."""
    for module in ("epilogue/frontend", "gemm_runtime/host"):
        path = folder / "packages/quack" / f"{module}.py"
        path.parent.mkdir(parents=True)
        path.touch()
    return {"PYTHONPATH": os.pathsep.join([str(folder / "packages"), python_path()]), "CUDA_VISIBLE_DEVICES": ""}
