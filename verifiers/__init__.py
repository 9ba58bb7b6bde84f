"""Scores an answer. Knows answers, no tokens; imports neither `engine` nor `reasoner`."""
