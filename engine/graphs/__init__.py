"""Decode steps as CUDA graphs: which sizes (buckets), how they are captured and replayed (capture), and graphs that
only measure (timing)."""
