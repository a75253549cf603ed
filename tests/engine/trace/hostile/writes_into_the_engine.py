# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
open("/app/engine/__init__.py", "a")  # HERE
