# expect: disk_limit
# says: made more than 50,000 files
# in: a copy
import itertools

for i in itertools.count():
    open(f"/scratch/{i}", "w").close()
