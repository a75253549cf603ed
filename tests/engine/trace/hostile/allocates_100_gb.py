# expect: memory_limit
# says: more memory than
blocks = []
while True:
    blocks.append(bytearray(b"x") * (64 << 20))  # HERE
