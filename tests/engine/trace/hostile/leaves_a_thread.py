# expect: module_raised
# says: left something behind
# in: a copy
import threading
import time

threading.Thread(target=time.sleep, args=(600,)).start()
raise RuntimeError("left something behind")  # HERE
