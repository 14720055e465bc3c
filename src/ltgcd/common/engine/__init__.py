"""Where work runs: in this process, in worker processes of one thread each, or on a Ray cluster."""
