"""The examples of ``docs/management.md``: each is sent, and the reply compared."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge.message import Message

from .managed import managed

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "management.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^request  (\{.*\})\n {9}(\{.*\})\nreply    (\{.*\})\n {9}(\{.*\})$", PAGE, re.MULTILINE
)


def test_all_examples_are_found() -> None:
    assert len(EXAMPLES) == len(re.findall(r"^request +\{", PAGE, re.MULTILINE)) > 25
    operations = {json.loads(example[0]).get("operation") for example in EXAMPLES}
    assert operations >= {"CREATE", "READ", "DELETE", "PURGE", "BIND", "UNBIND", "QUERY"}


def test_the_examples() -> None:
    """In their order, since each stands on those before."""

    async def work() -> None:
        async with managed() as broker, amqpforge.connect(broker.url) as connection:
            replies = await connection.receiver("$management", name="pair")
            requests = await connection.sender("$management", name="pair")
            for example in EXAMPLES:
                properties, body, told, shown = map(json.loads, example)
                request = Message(
                    body, reply_to="$management", message_id="1", application_properties=properties
                )
                await requests.send(request)
                reply = (await replies.receive(timeout=10)).message
                assert subset(told, dict(reply.application_properties)) == told, properties
                assert subset(shown, reply.body) == shown, properties
                assert reply.correlation_id == "1"

    asyncio.run(asyncio.wait_for(work(), 30))


def subset(shown: dict[str, Any], whole: Any) -> dict[str, Any]:
    return {name: whole.get(name) for name in shown}


def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    scope: dict[str, Any] = {}
    exec(found[1], scope)  # noqa: S102 (it is what the page says)

    async def work() -> None:
        async with managed() as broker:
            await scope["main"](broker.url)

    asyncio.run(asyncio.wait_for(work(), 30))
    assert capsys.readouterr().out == found[2]


def test_the_links() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
