# expect: time_limit
# says: did not end within
# in: a copy
import re

re.match("(a+)+$", "a" * 64 + "b")  # HERE
