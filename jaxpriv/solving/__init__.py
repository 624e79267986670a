"""The calls: `solve`, `solve_many` and `frontier`, and the pipelines behind them.

`solve` chooses the solver (`choice`) and the pipeline: `dense` for tables on the host
(`fallback` for a second method), `streamed` for operators, `traced` inside of jit and vmap.
`loops` runs a solver; `many` and `frontier` solve several problems in batches.
"""
