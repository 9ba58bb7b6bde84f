"""Attention over paged KV, one interface: `base.py`; the oracle: `reference.py`; the CPU's: `extents.py`."""
