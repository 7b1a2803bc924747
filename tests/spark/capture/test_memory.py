"""A large file costs a task no more memory than a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge_protocol.amqp_1_0 import Transfer, encode_frame
from tests.capture import build

_TASK = """
import resource, sys
from amqpforge.spark.capture import plan
from amqpforge.spark.capture.options import CaptureOptions

path, number = sys.argv[1], int(sys.argv[2])
options = CaptureOptions.read({"path": path, "maxPartitionBytes": "128m", "minPartitions": "1"})
tasks = plan.tasks([path], options)
rows = sum(batch.num_rows for batch in plan.batches(tasks[number][0], options))
print(len(tasks), rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
_BODY = b"\x00\x53\x75\xb0" + (16_000).to_bytes(4, "big") + bytes(16_000)


def large(path: Path, octets: int) -> int:
    """Write a capture of about so many octets: one connection, messages of 16 kB, acknowledged in between;
    returns the number of messages.
    """
    made = build.Talk().handshake().send(b"AMQP\x00\x01\x00\x00").answer(b"AMQP\x00\x01\x00\x00")
    count = 0
    with path.open("wb") as file:
        file.write(build.section() + build.interface())
        while file.tell() < octets:
            transfer = Transfer(handle=0, delivery_id=count, delivery_tag=b"%d" % count)  # type: ignore[arg-type]
            frame = encode_frame(transfer, 0, _BODY)
            made.send(frame[:9_000]).send(frame[9_000:])
            count += 1
            if count % 100 == 0:
                made.answer(b"")
            for packet in made.packets:
                file.write(build.enhanced(packet, count))
            made.packets.clear()
    return count


def task(path: Path, number: int) -> tuple[int, int, int]:
    """How many tasks there are; the rows of one, and the octets of memory that its process had at most."""
    done = subprocess.run(
        [sys.executable, "-c", _TASK, str(path), str(number)], capture_output=True, text=True, check=True
    )
    tasks, rows, most = map(int, done.stdout.split())
    return tasks, rows, most


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    small, big = tmp_path / "small.pcapng", tmp_path / "big.pcapng"
    few, many = large(small, 50 * 1024 * 1024), large(big, 500 * 1024 * 1024)
    _, rows, base = task(small, 0)
    assert rows == few + 4  # two headers, two ends
    found = [task(big, number) for number in range(4)]
    assert [one[0] for one in found] == [4] * 4
    assert sum(one[1] for one in found) == many + 4
    assert max(one[2] for one in found) < base + 64 * 1024 * 1024
