"""Every method of the paper: one file each, an explicit dict, no decorators."""
