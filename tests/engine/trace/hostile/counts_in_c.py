# expect: time_limit
# says: did not end within
# in: a copy
sum(range(10**12))  # HERE
