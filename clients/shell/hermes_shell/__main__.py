"""`python -m hermes_shell` is `hermes`."""

import sys

from hermes_shell.main import main

sys.exit(main())
