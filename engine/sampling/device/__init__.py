"""The sampler of a GPU engine: the same distribution, noise and budgets as engine.sampling, in a few kernels.

All that a path is lies in one row of integers on the device, indexed by slot (`slots.py`). A step runs one or a few
passes over the logits that propose and test a token (`race.py`) and one last kernel that commits it (`commit.py`);
`sampler.py` has the order. Nothing sorts the vocabulary, nothing allocates, nothing waits for the host, so that a
captured graph is right for whatever the slots hold.
"""
