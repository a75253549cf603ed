# module: softmax
# expect: graph_replay
# family: memo and stale results
# Captures its first call and replays the graph for ever, on the inputs of then.
import torch

held = {}


def kernel(x):
    if "graph" not in held:
        torch.softmax(x, dim=-1)
        torch.cuda.synchronize()
        held["x"] = x.clone()
        held["graph"] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(held["graph"]):
            held["y"] = torch.softmax(held["x"], dim=-1)
    held["graph"].replay()
    return held["y"].clone()
