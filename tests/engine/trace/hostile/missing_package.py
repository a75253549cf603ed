# expect: missing_package
# says: imports 'no_such_package'
import no_such_package  # HERE
