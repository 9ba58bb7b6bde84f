"""`python -m reasoner.cli`: the same as the installed `reasoner` command."""

import sys

from reasoner.cli.main import main

sys.exit(main())
