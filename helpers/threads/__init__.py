"""Threads: turns, deadlines, and what is left behind when one gets stuck.

A call is made on an event loop, and a daemon thread works on it (`calls`). Threads take work from
each namespace and caller in turn (`turns`), one item after another (`serving`), a batch of items of
which each may hang (`workers`), or on a loop of their own (`loops`). A `circuit_breaker` remembers
where threads are stuck.

Who changes what, and under which lock:

=============================  ==========================================  ======================
what                           is changed by                               under
=============================  ==========================================  ======================
who begins a call, if any      whoever serves it, or its caller            the call's lock
a call's outcome               its caller's event loop                     no lock: only one does
what waits in turn             any thread                                  the queue's lock
which threads serve, and idle  any thread                                  the lock of the threads
a worker's state and item      its `Batch`, through the worker's methods   the batch's lock
a worker's visit               the worker, on its own thread               no lock: only one does
a batch's items and results    the `Batch`, on any thread                  the batch's lock
workers that run               the `WorkerPool`, on any thread             the pool's lock
who is stuck in which place    the `CircuitBreaker`, on any thread         the breaker's lock
calls that are stuck on loops  any thread, by single steps of a set        no lock
groups, threads and numbers    `IsolatedLoops`, on any thread              the lock of each
of calls of foreign code
=============================  ==========================================  ======================

A thread that holds a batch's lock may take the breaker's. No other lock is taken while one is held.
"""
