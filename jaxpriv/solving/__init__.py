"""How a problem is brought to a solver and a solution back: one module for each kind of problem data."""
