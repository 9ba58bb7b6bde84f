"""Decode steps as CUDA graphs: which sizes (buckets), how they are captured and replayed (capture)."""
