# expect: time_limit
# says: did not end within
# in: a copy
class Odd(Exception):
    def __str__(self):
        while True:  # HERE
            pass  # HERE


raise Odd
