"""One classifier for known and novel classes: losses, heads, the loop, methods."""
