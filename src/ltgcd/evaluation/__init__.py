"""The metric; the only place where the truth is read."""
