"""The fused operations between a GPU step's matrix products, in Triton. Each file has one kernel and its launch.

Every launch writes to tensors that it is given: inside a CUDA graph nothing allocates. With `programmatic` launch
(Hopper and newer) a kernel starts while the one before drains; it waits for that one's results first.
"""
