"""The blocking twin has the names and parameters of the asyncio client: they cannot drift apart.

Who adds a public name to a class of the client adds it to its twin; what is for the inside begins with an
underscore.
"""

from __future__ import annotations

import inspect

import pytest

from amqpforge import blocking, client

TWINS = (
    "Connection",
    "Delivery",
    "OutgoingStream",
    "Receiver",
    "Requester",
    "Sender",
    "StreamedDelivery",
    "Transaction",
)

#: What the twin has beyond that, and why.
ADDED = {
    "Sender": {"send_each"},  # what iterating over send_many is in asyncio
    "OutgoingStream": {"outcome"},  # an attribute there
}

#: Names of types, there and here.
TYPES = {
    "Iterable[Sendable] | AsyncIterable[Sendable]": "Iterable[Sendable]",
    "Opening[Connection]": "Connection",
    "Opening[Sender]": "Sender",
    "Opening[Receiver]": "Receiver",
    "Opening[Requester]": "Requester",
    "Batch": "list[Outcome]",
    "asyncio.Future[Outcome]": "Future[Outcome]",
    "AsyncIterator[bytes]": "Iterator[bytes]",
}


def public(cls: type) -> set[str]:
    package = cls.__module__.partition(".")[0]
    return {
        name
        for base in cls.__mro__
        if base.__module__.partition(".")[0] == package
        for name in vars(base)
        if not name.startswith("_")
    }


def parameters(function: object) -> list[tuple[str, object, object, str]]:
    assert callable(function)
    return [
        (parameter.name, parameter.kind, parameter.default, TYPES.get(annotation, annotation))
        for parameter in inspect.signature(function).parameters.values()
        for annotation in [str(parameter.annotation).replace("termini.", "")]
    ]


@pytest.mark.parametrize("name", TWINS)
def test_a_class_has_the_same_names(name: str) -> None:
    there, here = public(getattr(client, name)), public(getattr(blocking, name))
    assert here - ADDED.get(name, set()) == there


@pytest.mark.parametrize("name", TWINS)
def test_methods_have_the_same_parameters_and_results(name: str) -> None:
    there, here = getattr(client, name), getattr(blocking, name)
    compared = 0
    for method in public(there) & public(here) - ADDED.get(name, set()):
        its, ours = inspect.getattr_static(there, method), inspect.getattr_static(here, method)
        assert isinstance(its, property) is isinstance(ours, property), method
        its, ours = (getattr(its, "fget", its), getattr(ours, "fget", ours))
        assert parameters(its) == parameters(ours), method
        result = str(inspect.signature(its).return_annotation)
        assert TYPES.get(result, result) == inspect.signature(ours).return_annotation, method
        compared += 1
    assert compared


def test_what_is_said_of_a_method_is_said_of_its_twin() -> None:
    """The paragraphs about arguments and errors are the same; the rest may speak of awaiting."""
    for name in TWINS:
        there, here = getattr(client, name), getattr(blocking, name)
        for method in public(there) & public(here) - ADDED.get(name, set()):
            its, ours = inspect.getdoc(getattr(there, method)), inspect.getdoc(getattr(here, method))
            assert bool(its) is bool(ours), f"{name}.{method}"


def test_the_packages_have_the_same_names() -> None:
    asynchronous = {"Batch", "Opening"}
    assert set(blocking.__all__) == set(client.__all__) - asynchronous
    for name in blocking.__all__:
        assert name in (*TWINS, "connect") or getattr(blocking, name) is getattr(client, name)


def test_connect_has_the_same_parameters() -> None:
    assert parameters(blocking.connect) == parameters(client.connect)
    assert inspect.signature(blocking.connect).return_annotation == "Connection"


def test_each_of_them_is_documented() -> None:
    for name in blocking.__all__:
        assert name in ("DEFAULT", "Outcome", "Timeout") or inspect.getdoc(getattr(blocking, name))
