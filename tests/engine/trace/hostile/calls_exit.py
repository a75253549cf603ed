# expect: exited
# says: ends the Python process
# in: a copy
import sys

sys.exit("bye")  # HERE
