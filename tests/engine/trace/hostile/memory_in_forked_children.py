# expect: process_limit
# says: 
# in: a copy
# alone: time_limit
import ctypes

libc = ctypes.CDLL(None)
for _ in range(10):
    if libc.fork() == 0:
        held = []
        while len(held) < 16:
            held.append(b"x" * (32 << 20))
        while True:
            libc.sleep(60)
while True:
    libc.sleep(60)
