# expect: disk_limit
# says: made more than 50,000 files
# in: a copy
import itertools
import os

open("/dev/shm/one", "w").close()
for i in itertools.count():
    os.link("/dev/shm/one", f"/dev/shm/{i}")
