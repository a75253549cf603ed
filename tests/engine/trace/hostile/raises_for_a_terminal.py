# expect: module_raised
# says: raised RuntimeError: [2J[31mred txet
# in: a copy
raise RuntimeError("\x1b[2J\x1b[31mred \u202etxet\0\u2066\ud800")  # HERE
