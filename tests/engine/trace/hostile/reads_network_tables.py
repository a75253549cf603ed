# expect: module_raised
# says: no neighbours
# in: a copy
rows = [open(f"/proc/net/{name}").read().splitlines()[1:] for name in ("tcp", "udp", "unix")]
raise RuntimeError("LEAK" if any(rows) else "no neighbours")  # HERE
