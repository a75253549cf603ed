# expect: module_raised
# says: maximum limit
# in: a copy
import resource

resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))  # HERE
