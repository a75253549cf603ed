# expect: module_raised
# says: raised Odd, whose __str__ raised TypeError
class Odd(Exception):
    def __str__(self):
        return 7


raise Odd  # HERE
