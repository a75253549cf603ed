# expect: process_limit
# says: more processes or threads
# in: a copy
import threading
import time

threading.stack_size(1 << 30)
while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # HERE
