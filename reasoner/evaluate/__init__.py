"""Evaluation: task sets to solve, and what is measured on them."""
