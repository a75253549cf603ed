# expect: garbled
# says: reads a tensor before it is made
# in: a copy
import json
import os
import sys
import time

t = {"shape": [4], "dtype": "f32", "path": "", "kind": "intermediate"}
op = {"op": "mul", "attrs": {}, "line": 1, "module": ""}
graph = {
    "tensors": [{**t, "name": "x", "kind": "input"}, {**t, "name": "a"}, {**t, "name": "b"}],
    "ops": [
        {**op, "name": "1", "inputs": ["b"], "outputs": ["a"]},
        {**op, "name": "2", "inputs": ["a"], "outputs": ["b"]},
    ],
    "inputs": ["x"],
    "outputs": ["b"],
}
os.write(int(sys.argv[2]), json.dumps({"ok": {"graph": graph, "title": "", "has": {}}}).encode() + b"\n")
time.sleep(60)
