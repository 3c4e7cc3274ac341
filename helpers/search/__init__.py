"""The parts of ``recall``: terms, postings, ranking and spreading, without any I/O."""
