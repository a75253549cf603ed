# expect: module_raised
# says: left something behind
# in: a copy
import os

os.makedirs("/scratch/a/b/c", exist_ok=True)
for folder in ("/scratch", "/scratch/a/b", "/dev/shm"):
    with open(f"{folder}/left", "w") as f:
        f.write("x")
    if not os.path.islink(f"{folder}/link"):
        os.symlink("/app", f"{folder}/link")
raise RuntimeError("left something behind")  # HERE
