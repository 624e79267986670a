"""The grid: every solver, form, measure, structure and transform, with a checker that shares no code with jaxpriv.

`measures` defines the leakage measures once more in NumPy, `optimum` bounds optimal values by cutting planes, `cells`
are the axes and the problem of each cell, `covering` the choice of cells of the standard run, `judge` runs a cell and
compares. A cell gives a value, a mechanism and a bound that the checker accepts, or an `InputError` that names the
reason and the alternative; nothing else passes.
"""
