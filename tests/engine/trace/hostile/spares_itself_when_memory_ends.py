# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
with open("/proc/self/oom_score_adj", "w") as f:  # HERE
    f.write("-1000\n")
