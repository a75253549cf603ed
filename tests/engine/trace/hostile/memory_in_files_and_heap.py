# expect: memory_limit
# says: used more memory than
# in: a copy
# alone: time_limit
import time

for i in range(16):
    with open(f"/dev/shm/{i}", "wb") as f:
        f.write(bytes(60 << 20))
heap = [b"x" * (32 << 20) for _ in range(40)]
time.sleep(60)
