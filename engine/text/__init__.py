"""Text of token ids: tokenizer, incremental detokeniser, stop strings, thinking/answer split.

Runs in the caller's process; the step loop sees ids only. Nothing here imports torch.
"""
