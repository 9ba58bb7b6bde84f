"""Token level: ids in, ids out, fast. Knows groups, paths and budgets; no verdicts, no HTTP."""
