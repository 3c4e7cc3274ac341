"""Programs for developers: long runs, generators and checks; none of them is a test."""
