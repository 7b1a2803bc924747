"""Which endpoint deals with which frame: the table of section 2.1.

A frame is *intercepted* by an endpoint that looks at it and passes it on, and *handled* by the one where it
ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from amqpforge_protocol.amqp_1_0 import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer

__all__ = ["ROUTES", "Route"]

HANDLED: Final = "handled"
INTERCEPTED: Final = "intercepted"


class Route(NamedTuple):
    """What each endpoint does with a frame; None: it never sees it."""

    connection: str
    session: str | None = None
    link: str | None = None


# fmt: off
ROUTES: Final[dict[type, Route]] = {
    Open:        Route(HANDLED),
    Begin:       Route(INTERCEPTED, HANDLED),
    Attach:      Route(INTERCEPTED, INTERCEPTED, HANDLED),
    Flow:        Route(INTERCEPTED, INTERCEPTED, HANDLED),
    Transfer:    Route(INTERCEPTED, INTERCEPTED, HANDLED),
    Disposition: Route(INTERCEPTED, INTERCEPTED, HANDLED),
    Detach:      Route(INTERCEPTED, INTERCEPTED, HANDLED),
    End:         Route(INTERCEPTED, HANDLED),
    Close:       Route(HANDLED),
}
# fmt: on
"""Every performative, and its way through the endpoints."""
