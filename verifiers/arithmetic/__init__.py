"""Exact arithmetic on untrusted text: tokens, a small parser, evaluation in fractions. No eval anywhere.

The text is expected in the spelling of `answers.plain.plain`: ASCII operators and `\\frac{a}{b}`.
"""
