"""A real browser without a window: what a page looks like, and what its scripts have made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["Picture", "document", "picture"]

_PATIENCE = 180
_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Picture(NamedTuple):
    """What was on the screen: 8 bits a channel."""

    width: int
    height: int
    channels: int
    rows: list[bytes]

    def pixel(self, x: int, y: int) -> tuple[int, int, int]:
        """Red, green and blue."""
        start = x * self.channels
        red, green, blue = self.rows[y][start : start + 3]
        return red, green, blue

    def colours(self) -> dict[tuple[int, int, int], int]:
        """How many pixels have each colour, of every second one each way."""
        found: dict[tuple[int, int, int], int] = {}
        for y in range(0, self.height, 2):
            for x in range(0, self.width, 2):
                colour = self.pixel(x, y)
                found[colour] = found.get(colour, 0) + 1
        return found


def picture(page: Path, folder: Path, width: int, height: int, style: str = "") -> Picture:
    """The page in a window of some size; ``style`` is added to its own."""
    file = folder / "picture.png"
    _browse(_styled(page, folder, style), folder, f"--window-size={width},{height}", f"--screenshot={file}")
    return _read_png(file.read_bytes())


def document(page: Path, folder: Path, script: str = "") -> str:
    """The HTML that the page's scripts, and one more, have left."""
    changed = folder / "scripted.html"
    text = page.read_text(encoding="utf-8")
    changed.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return _browse(changed, folder, "--window-size=1400,1000", "--dump-dom")


def _styled(page: Path, folder: Path, style: str) -> Path:
    changed = folder / "styled.html"
    text = page.read_text(encoding="utf-8")
    changed.write_text(text.replace("</style>", f"{style}</style>", 1), encoding="utf-8")
    return changed


def _browse(page: Path, folder: Path, *options: str) -> str:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        if os.environ.get("AMQPFORGE_REQUIRE_PEERS") == "1":
            pytest.fail("there is no chromium, and AMQPFORGE_REQUIRE_PEERS is set")
        pytest.skip("there is no chromium")
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        # Whatever the page asks for over a network is refused.
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=8000"),
        *(f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    return ran.stdout


def _read_png(octets: bytes) -> Picture:
    """A PNG without interlacing, of 8 bits a channel."""
    width, height = (int.from_bytes(octets[at : at + 4], "big") for at in (16, 20))
    depth, kind, _, _, interlaced = octets[24:29]
    assert (depth, interlaced) == (8, 0)
    channels = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(octets):
        length = int.from_bytes(octets[at : at + 4], "big")
        if octets[at + 4 : at + 8] == b"IDAT":
            packed += octets[at + 8 : at + 8 + length]
        at += length + 12
    return Picture(width, height, channels, _unfiltered(zlib.decompress(packed), width * channels, channels))


def _unfiltered(raw: bytes, length: int, step: int) -> list[bytes]:
    rows: list[bytes] = []
    above = bytes(length)
    for start in range(0, len(raw), length + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        if kind == 1:
            for i in range(step, length):
                row[i] = (row[i] + row[i - step]) & 255
        elif kind == 2:
            row = bytearray((one + other) & 255 for one, other in zip(row, above, strict=True))
        elif kind == 3:
            for i in range(length):
                left = row[i - step] if i >= step else 0
                row[i] = (row[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            for i in range(length):
                left, corner = (row[i - step], above[i - step]) if i >= step else (0, 0)
                row[i] = (row[i] + _paeth(left, above[i], corner)) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))
