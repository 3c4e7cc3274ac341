"""What ``recall`` is made of: terms, postings, ranking and spreading, without any I/O."""
