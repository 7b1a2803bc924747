"""What peers return, as the cases have it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def plain(value: Any) -> Any:
    """A value with its times as seconds, also inside tables and arrays; a time without a zone is in UTC."""
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def fields(holder: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Attributes of an object by the names of the specification, as plain values."""
    return {name: plain(getattr(holder, name.replace("-", "_"))) for name in names}


def moment(seconds: int) -> datetime:
    """A time as the peers want it in tables."""
    return datetime.fromtimestamp(seconds, UTC)
