"""Where tokens come from: one protocol, and one module for each thing that speaks it."""
