# expect: memory_limit time_limit
# Makes files without end.
import itertools

for i in itertools.count():
    open(f"f{i}", "w").close()


def kernel(x):
    return x
