"""The fused operations of a GPU step and its streamed products, in Triton: one idea a file.

With `programmatic` launch
(Hopper and newer) a kernel starts while the one before drains; it waits for that one's results first.
"""
