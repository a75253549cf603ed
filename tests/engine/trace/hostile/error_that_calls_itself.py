# expect: module_raised
# says: whose __str__ raised RecursionError
class Odd(Exception):
    def __str__(self):
        return str(self)  # HERE


raise Odd
