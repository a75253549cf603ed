# expect: output_limit
# says: printed more than
while True:
    print("x" * 10_000)  # HERE
