"""The clock outside of the timed process: see design/measuring.md, "The clock is not the candidate's".

    plan.py       the memory that judge and timed process share, and the page over which they signal
    runner.py     in the timed process: captures each call as a graph and runs them in a chain when the page says so
    clock.py      in the judge's process: draws the data, starts and stops the clock, reads results
    sides.py      in the engine: brings both together, and ends the timed process's loop

A batch is n calls on n sets of inputs that were drawn for it. The judge draws them in memory of its own, starts its
clock, copies them into the shared memory, says go, waits for done, reads results of calls that it chose after done, and
stops the clock. What the copies, the signals and the reading take was measured before the timed code was loaded and is
taken off; if they take longer beside the timed code, the rest counts as its time.
"""
