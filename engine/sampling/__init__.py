"""The sampler: logits in, committed tokens out, with all per-path state on the device, indexed by slot.

Every concept has one file and one protocol: `admit` writes a slot, the rest are operations on the rows of a
step. `sampler.py` has the order.
"""

from engine.sampling.sampler import SampleOutput, sample
from engine.sampling.state import SamplerState, check_ids
from engine.sampling.stops import FinishCode
from engine.sampling.thinking import opening_phase

__all__ = ["FinishCode", "SampleOutput", "SamplerState", "check_ids", "opening_phase", "sample"]
