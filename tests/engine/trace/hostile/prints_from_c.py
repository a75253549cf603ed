# expect: output_limit
# says: printed more than
# in: a copy
import os

while True:
    os.write(2, b"x" * 65536)  # HERE
