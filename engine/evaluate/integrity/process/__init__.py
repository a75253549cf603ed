"""The confined process of a raw kernel and the judge beside it: loading, tracing, building, and both sides' talk."""
