"""Plans that both back ends share: the buffers of a pipeline, and its launch as a CUDA graph."""
