"""The standing trial: hostile sources, damage, kills and concurrent commands, drawn from a seed. See `__main__`."""

import os

# Before anything imports numpy or torch: two workers share two cores, and a process whose OpenMP threads have worked
# can't be forked (the child waits for them for ever).
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
