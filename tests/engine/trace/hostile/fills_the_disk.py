# expect: disk_limit
# says: more than the sandbox lets it write
for i in range(100):
    with open(f"/scratch/{i}", "wb") as f:
        f.write(bytes(32 << 20))  # HERE
