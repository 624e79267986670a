"""What the library gave at commit 0db4a97, frozen: values, bounds and statuses, funnel proofs, records and exit codes.

A change of the engine may not move a value by more than its certified gap, widen a gap beyond the tolerance, or make a
status worse. `solves.json` holds 621 convex problems (cells of the grid, every measure in every form, problems with a
known optimum, kernels on and off), `funnels.json` the funnels of real tables, `commands.json` the shape of every
command's JSON and its exit codes. `pytest tests/guard` compares what takes no seconds; `pytest -m "guard or not guard"
tests/guard` all of it (minutes). The ratios of processor time are in `benchmarks/ratios.py`.

    python -m tests.guard.freeze solves [KEY ...]     # or funnels, commands

writes the named entries again, for a defect that was mended, in the commit that mends it; without names those that are
missing.
"""
