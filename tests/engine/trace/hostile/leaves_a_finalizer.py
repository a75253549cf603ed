# expect: time_limit
# says: did not end within
# in: a copy
class Last:
    def __del__(self):
        while True:  # HERE
            pass  # HERE


last = Last()
del last
