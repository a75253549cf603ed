# expect: threads
# Starts a shell that stays.
import subprocess

subprocess.Popen(["sh", "-c", "while true; do sleep 1; done"], start_new_session=True)


def kernel(x):
    return x
