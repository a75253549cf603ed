# expect: sandbox_file
# says: opens '/scratch/link'
# in: a copy
import os

os.symlink("/etc/shadow", "/scratch/link")
open("/scratch/link")  # HERE
