"""Long runs and generators for developers; none of them is a test."""
