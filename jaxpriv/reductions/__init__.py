"""What is done to a program before a solver iterates on it, and the way back.

`closed_forms` has the answers that need no iteration, `faces` the mechanisms that meet budgets without slack,
`reduction` the smaller program that a solver works on, `buckets` the common shapes to which the problems of a batch are
padded.
"""
