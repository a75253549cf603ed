# expect: module_raised
# says: left something behind
# in: a copy
import os
import shutil

os.chdir("/")
shutil.rmtree("/scratch", ignore_errors=True)
raise RuntimeError("left something behind")  # HERE
