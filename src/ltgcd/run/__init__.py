"""The run directory, and what is done with it.

`paths` says what each file is. `directory.Run` alone reads and writes them: how is in `fitted` (what training leaves,
and the assignments: `FittedRun.write_assignments`), `labels`, `items` and `reviewed`. The other modules are called as
the commands.
"""
