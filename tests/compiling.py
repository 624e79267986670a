"""A line of Python after which the library compiles its programs with few optimisations, in two thirds of the time.

The suite runs it, and so do the processes that its tests start for what is not the bits of a release.
"""

QUICKLY = "from jaxpriv._runtime import compilation; compilation._OPTIONS['xla_backend_optimization_level'] = 0\n"
