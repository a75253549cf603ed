# expect: module_raised
# says: raised Odd, whose __str__ raised ZeroDivisionError in line 5
class Odd(Exception):
    def __str__(self):
        return 1 / 0  # HERE


raise Odd
