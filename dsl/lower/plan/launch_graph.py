"""`launch graph`: the text in a binding that replays a whole pipeline as one CUDA graph."""

# The binding defines `launch(inputs, outputs, home)`, which launches every stage on the current stream. It checks
# nothing, allocates nothing that must outlive the call, and uses the workspace of `home`: a device and the handle of
# its current stream. `Graphs(launch)(inputs, outputs)` runs it; the caller sets the device. `fresh(inputs, home)`
# returns True if this call does work that later calls do not (prepacking); such a call is not captured.
GRAPHS = '''\
class Graphs:
    """Launches a pipeline, and from the second call with the same tensors replays it as one CUDA graph.

    A graph holds addresses, so there is one for each set of them; the least recently used goes when there are `most`.
    Where capture is refused, and inside somebody else's capture, the stages are launched one by one.
    """

    def __init__(self, launch, fresh=lambda inputs, home: False, most=16):
        self.launch, self.fresh, self.most, self.graphs = launch, fresh, most, {}

    def __call__(self, inputs, outputs):
        home = torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream
        if torch.cuda.is_current_stream_capturing() or self.fresh(inputs, home):
            return self.launch(inputs, outputs, home)
        key = (home, *(t.data_ptr() for t in (*inputs, *outputs)))
        known = key in self.graphs
        graph = self.graphs.pop(key, None)
        if known and graph is None:
            graph = self.capture(inputs, outputs, home)
        self.graphs[key] = graph  # last in order: most recently used
        if len(self.graphs) > self.most:
            del self.graphs[next(iter(self.graphs))]
        if graph:
            graph.replay()
        else:
            self.launch(inputs, outputs, home)

    def capture(self, inputs, outputs, home):
        """The graph of one launch; False where capture is refused."""
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self.launch(inputs, outputs, home)
                finally:
                    graph.capture_end()
        except RuntimeError:
            return False
        return graph
'''
