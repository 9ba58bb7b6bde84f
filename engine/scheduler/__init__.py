"""Decides what the next step runs: a pure function of (state, events), without clock, tensor or thread."""
