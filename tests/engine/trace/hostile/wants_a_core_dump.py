# expect: module_raised
# says: maximum limit
# in: a copy
import resource

resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))  # HERE
