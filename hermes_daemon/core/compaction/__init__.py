"""How a conversation stays inside its window: rows to rows, without IO. The one effect, a model that writes a summary,
is asked for by a plan and judged when its text comes back.

`Context` holds the rows a model sees. A planner (`micro.plan`, `batch.plan`, `prune.plan`) looks at it and says what
could be folded; `micro.fold` and `batch.fold` make the `Change` from the summary; the owner commits the change to its
store and then applies it. Nothing here changes a context but `Context.append` and `Context.apply`.
"""
