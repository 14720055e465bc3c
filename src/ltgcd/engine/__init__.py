"""Where work runs: in this process, or in worker processes of one thread each."""
