"""The confined process of a raw kernel and the judge: loading, tracing, building, and both sides of the protocol."""
