"""Daemon threads that work for event loops: turns, deadlines, and threads that get stuck.

A call is made on an event loop, and a thread works on it (`workers.Call`). Threads take work from
each namespace and caller in turn (`turns`). They serve single items (`turns.ServingThreads`), a
batch of items that may each hang (`workers`), or an event loop (`loops`). A `circuit_breaker`
remembers where threads are stuck.

Shared state, and the lock that guards it:

=============================  ==========================================  ======================
state                          is changed by                               under
=============================  ==========================================  ======================
the server of a call, if any   its server, or its caller                   the call's lock
a call's outcome               its caller's event loop                     no lock: one thread
items that wait in turn        any thread                                  the queue's lock
serving and idle threads       any thread                                  the lock of the threads
a worker's state and item      its `Batch`, through the worker's methods   the batch's lock
a worker's visit               the worker, on its own thread               no lock: one thread
a batch's items and results    the `Batch`, on any thread                  the batch's lock
workers that run               the `WorkerPool`, on any thread             the pool's lock
stuck visits by place          the `CircuitBreaker`, on any thread         the breaker's lock
calls that are stuck on loops  any thread, by atomic operations of a set   no lock
groups, threads and numbers    `IsolatedLoops`, on any thread              the lock of each
of calls of foreign code
=============================  ==========================================  ======================

A thread that holds a batch's lock may take the breaker's. No other lock is taken while one is held.
"""
