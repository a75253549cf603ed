# expect: module_raised
# says: raised Exception: az.
raise Exception("a\u200b\u2060\U000e0041\ufeff\ufe0f\u200dz")  # HERE
