"""From the text of a candidate to an answer, and from an answer to its class in a vote.

`trace` finds the text after the thinking, `rules` and `extract` the answer in it, `plain` writes Unicode and
LaTeX the simple way, `numbers` reads exact values, `canonical` names the class of equal answers.
"""
