"""What `amqpforge report` makes of captures: one HTML page that needs nothing else, not even a network.

`report` does it all: `gather` asks Spark, `build` makes figures and tables of the answers, `write_page`
puts them on the page.
"""

from __future__ import annotations

from .build import build
from .gather import STEPS, gather
from .making import NotReported, check, report
from .page import write_page

__all__ = ["STEPS", "NotReported", "build", "check", "gather", "report", "write_page"]
