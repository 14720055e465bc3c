"""The run directory, and what is done with it."""
