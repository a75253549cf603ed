# expect: memory_limit
# says: more memory than
held = []
while True:
    held.append(bytearray(b"x") * (64 << 20))  # HERE
