"""The real Placement with one behaviour broken, as a WSGI application for uWSGI."""

import os

from placement.wsgi.api import (  # type: ignore[import-not-found] # .venv-placement has it
    application as real,
)

from tests.conformance.placement.mutants import mutated

application = mutated(os.environ["PLACEMENT_MUTANT"], real)
