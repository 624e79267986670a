"""What every room needs of Python, JAX and the machine: arrays, compiling, clocks, files, memory, checks of arguments.

Nothing here is about privacy, and nothing here is public but `progress` (`jaxpriv.Progress`, `jaxpriv.History`).
"""
