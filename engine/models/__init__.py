"""Decoder models: what a checkpoint folder says (spec), its tensors (loader), and the forward pass."""
