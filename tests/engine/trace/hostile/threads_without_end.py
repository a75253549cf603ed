# expect: process_limit
# says: more processes or threads
import threading
import time

while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # HERE
