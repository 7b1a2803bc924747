"""Both sides of a mechanism joined in memory."""

from __future__ import annotations

from typing import overload

from amqpforge.sasl import Authenticated, ClientMechanism, ServerMechanism, ServerReply, Work

MOST_STEPS = 8


@overload
def done(step: bytes | Work[bytes]) -> bytes: ...
@overload
def done(step: ServerReply | Work[ServerReply]) -> ServerReply: ...
def done(step: ServerReply | Work[ServerReply]) -> ServerReply:
    """The reply of a step, its work done at once."""
    return step.resume(step.run()) if isinstance(step, Work) else step


def authenticate(client: ClientMechanism, server: ServerMechanism) -> str:
    """Run an exchange to its end; return the identity that the server took, believed by the client."""
    response = done(client.start())
    for _ in range(MOST_STEPS):
        reply = done(server.step(response))
        if isinstance(reply, Authenticated):
            client.finish(reply.additional_data)
            return reply.identity
        response = done(client.step(reply))
    raise AssertionError(f"no end after {MOST_STEPS} steps")
