"""Documents as text: the readers of their formats, and the process in which they run."""
