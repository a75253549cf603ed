# expect: process_limit raised time_limit
# Threads without end.
import threading
import time

while True:
    threading.Thread(target=time.sleep, args=(1000,)).start()


def kernel(x):
    return x
