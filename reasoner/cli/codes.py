"""Exit codes: the same for every command."""

OK = 0  # verified; answered, where no verifier was asked for
NOT_SOLVED = 1
WRONG_USE = 2
ABORTED = 130  # what shells report for a program ended by Ctrl-C
