"""tshark on a capture: what it is started with, what it costs, and whether it has seen all there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.spark.usage import ended
from benchmarks.stack import WrongResultError

_ARGUMENTS = "amqp.performative.arguments."
FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "tcp.srcport",
    "tcp.dstport",
    "amqp.performative",
    "amqp.channel",
    *(
        _ARGUMENTS + name
        for name in (
            *("containerId", "hostname", "maxFrameSize", "channelMax", "idleTimeout"),
            *("remoteChannel", "nextIncomingId", "incomingWindow", "nextOutgoingId", "outgoingWindow"),
            *("name", "handle", "role", "sndSettleMode", "rcvSettleMode", "initDeliveryCount"),
            *("deliveryCount", "linkCredit", "available", "drain", "echo"),
            *("deliveryId", "deliveryTag", "messageFormat", "settled", "more", "first", "last", "batchable"),
        )
    ),
)
"""What is asked of it where messages are not wanted: where a frame is, and the fields of its performative."""

AS_FIELDS = ("-T", "fields", *(part for name in FIELDS for part in ("-e", name)))
AS_NAMES = ("-T", "fields", "-e", "frame.number", "-e", "amqp.channel", "-e", "amqp.performative")
"""Where a frame is, and what it holds."""
AS_EK = ("-T", "ek")
ONLY_AMQP = ("-T", "ek", "-J", "amqp")
"""The same without what is below AMQP: no addresses, no packet numbers."""

_CODES_IN_EK = re.compile(rb'"amqp_amqp_performative":"(\d+)"')


@dataclass(frozen=True, slots=True)
class Tshark:
    """An installed tshark and a capture for it.

    Attributes:
        program: its path.
        label: its name and version.
        capture: what it reads.
        port: the one that has AMQP in the capture.
    """

    program: str
    label: str
    capture: Path
    port: int

    def run(self, form: Sequence[str]) -> dict[str, float]:
        """Decode the capture into nowhere, as a whole process; see :meth:`check` for whether that is right.

        Raises:
            WrongResultError: it failed.
        """
        begin = perf_counter()
        process = subprocess.Popen(self._command(form), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        status, used = ended(process.pid)
        seconds = perf_counter() - begin
        process.returncode = status
        if status:
            raise WrongResultError(f"tshark {' '.join(form[:2])} ended with status {status}")
        return {"seconds": seconds, **used}

    def check(self, form: Sequence[str], expected: Mapping[int, int], folder: Path) -> None:
        """Hold what it finds against the number of frames with each performative, by descriptor code.

        Raises:
            WrongResultError: it has found others, or failed.
        """
        place = form[3::2].index("amqp.performative") if form[1] == "fields" else 0
        out = folder / "tshark.out"
        with out.open("wb") as file:
            status = subprocess.run(
                self._command(form), stdout=file, stderr=subprocess.DEVNULL, check=False
            ).returncode
        with out.open("rb") as file:
            found: Counter[int] = Counter()
            for line in file:
                if form[1] == "fields":
                    codes = line.rstrip(b"\n").split(b"\t")[place].split(b",")
                else:
                    codes = _CODES_IN_EK.findall(line)
                found.update(int(code) for code in codes if code)
        out.unlink()
        wrong = {code for code, count in expected.items() if found[code] != count}
        if status or wrong:
            raise WrongResultError(
                f"tshark {' '.join(form[:2])} has found {dict(found)}, not {dict(expected)}"
            )

    def _command(self, form: Sequence[str]) -> list[str]:
        return [self.program, "-r", str(self.capture), "-d", f"tcp.port=={self.port},amqp", *form]


def find_tshark(capture: Path, port: int) -> Tshark | None:
    """tshark, if it is installed."""
    program = shutil.which("tshark")
    if program is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(\.\d+)+", told.stdout)
    return Tshark(program, f"tshark {version[0] if version else '(of no version)'}", capture, port)
