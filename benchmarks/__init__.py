"""Comparisons: how fast, how large, how far from the proved optimum, and beside whom.

`objective.py` judges every result alike; `cases.py` names the instances; `solvers/` has one file for each
peer; `suites.py` says what is run; `run.py` runs it, one process for each solver and case (`worker.py`), and
writes a results file (`results.py`); `report.py` makes a page from it (`reading.py`, `plots.py`,
`growth.py`) and measures nothing. `robustness.py` and `first.py` are commands of their own.
"""
