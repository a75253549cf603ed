# expect: exited
# says: ends the Python process
import sys

sys.exit("bye")  # HERE
