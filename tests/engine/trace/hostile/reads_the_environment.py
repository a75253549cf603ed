# expect: module_raised
# says: seen: []
import os

OURS = {"HOME", "TMPDIR", "PATH", "LANG", "USER", "LOGNAME", "PWD", "CUDA_VISIBLE_DEVICES", "LC_CTYPE", "CXX"}
seen = set(os.environ)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        seen |= {pair.partition(b"=")[0].decode() for pair in open(f"/proc/{pid}/environ", "rb").read().split(b"\0")}
    except OSError:
        pass
PREFIXES = ("PYTHON", "UCUTLASS_SANDBOX", "TORCH", "KMP", "OMP")
left = sorted(n for n in seen if n and n not in OURS and not n.startswith(PREFIXES))
raise RuntimeError(f"seen: {left}")  # HERE
