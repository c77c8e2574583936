"""`python -m clover_agent`."""

import sys

from clover_agent.cli import main

sys.exit(main())
