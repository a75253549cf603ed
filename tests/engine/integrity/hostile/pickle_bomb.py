# expect: hidden_code
# A pickle that runs a program when it is read.
import os
import pickle


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/ucutlass-was-here",)


def kernel(x):
    return pickle.loads(pickle.dumps(Bomb()))
