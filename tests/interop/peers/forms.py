"""Values as the JSON of the programs has them, whichever stack they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LONGEST_TEXT: Final = 256
PLAIN_MESSAGE: Final[Mapping[str, Any]] = {
    "size": 100,
    "text": None,
    "kind": "data",
    "message_id": "m-{}",
    "header": {},
    "properties": {},
    "application_properties": {},
    "message_annotations": {},
}
"""What is sent where nothing else is asked for."""


def plain(value: Any) -> Any:
    """A value of AMQP as JSON has it; what JSON does not know becomes a string."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def text_of(content: bytes) -> str | None:
    """Octets as a text, where they are short and UTF-8."""
    if len(content) > LONGEST_TEXT:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
