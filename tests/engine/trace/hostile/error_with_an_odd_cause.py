# expect: module_raised
# says: raised KeyError
class Odd(Exception):
    def __bool__(self):
        raise ValueError


raise KeyError("the error itself") from Odd()  # HERE
