# expect: time_limit
# says: did not end within
# in: a copy
import threading

lock = threading.Lock()
lock.acquire()
lock.acquire()  # HERE
