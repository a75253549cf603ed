# expect: sandbox_process
# says: forks a process
import os

while True:
    os.fork()  # HERE
