"""What `make conformance` runs: the protocol's own conformance tool and the Inspector, against real servers."""
