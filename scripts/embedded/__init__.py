"""Trains, evaluates and exports the embedded model. `python -m scripts.embedded.train --help`."""
