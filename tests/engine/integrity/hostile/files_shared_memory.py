# Fills /dev/shm.
i = 0
while True:
    with open(f"/dev/shm/f{i}", "wb") as f:
        f.write(b"x" * (32 << 20))
    i += 1


def kernel(x):
    return x
