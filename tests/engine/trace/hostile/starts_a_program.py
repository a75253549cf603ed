# expect: sandbox_process
# says: starts another program
import subprocess

subprocess.run(["/usr/bin/id"])  # HERE
