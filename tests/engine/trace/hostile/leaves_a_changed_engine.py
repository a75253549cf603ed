# expect: time_limit
# says: did not end within
# in: a copy
import engine.sandbox.channel
import engine.trace.child

engine.sandbox.channel.write_all = lambda *_: None
engine.trace.child._trace = None
raise RuntimeError("no answer comes")
