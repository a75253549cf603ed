# expect: sandbox_process
# says: starts another program
# in: a copy
import subprocess

subprocess.run(["/usr/bin/id"])  # HERE
