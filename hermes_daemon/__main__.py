"""`python -m hermes_daemon` is `hermes-daemon`."""

import sys

from hermes_daemon.cli import main

sys.exit(main())
