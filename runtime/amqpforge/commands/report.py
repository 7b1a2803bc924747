"""`amqpforge report`: what captures hold, on one page that is read in a browser."""

from __future__ import annotations

import argparse
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError, LocalError

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Analyse captured AMQP traffic with Spark, on this machine, and write what it
shows as one HTML page: a summary, frames and octets over time, how long
deliveries took to be settled, credit over time, conversations as sequence
charts, and tables that sort. The page needs no network and no other file.

Reads what `amqpforge decode` reads, of any size: files, folders of captures, and
patterns in quotes. AMQP 1.0 connections are followed through the states, windows
and credits of the protocol, and what breaks it is shown with the frame that did;
of AMQP 0-9-1 and the other dialects frames, errors and conversations are shown.
"""

EPILOG = """\
It needs Java 17 or newer: that of JAVA_HOME, else the one on PATH, else the one
that came with pip install "amqpforge[spark]". Progress goes to standard error,
the name of the page to standard output.

Examples:
  amqpforge report trace.pcapng
  amqpforge report -o friday.html captures/ 'more/*.pcap.gz'
  amqpforge report --dialect amqp_0_9_1 both-dialects.pcapng

Exit code: 0, 1 if something could not be read, started or written, 2 for wrong usage.
"""

_OUTPUT: Final = "amqp-report.html"
_DIALECTS: Final = ("amqp_1_0", "amqp_0_9_1", "amqp_0_10_preview", "amqp_1_0_draft")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="captures, folders of them, and patterns")
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        default=Path(_OUTPUT),
        metavar="FILE",
        help=f"the page (default: {_OUTPUT}); one that is there is written over",
    )
    parser.add_argument(
        "--dialect",
        choices=_DIALECTS,
        help="whose frames are shown with their fields (default: the one that most frames are of)",
    )
    parser.add_argument("--cores", type=_count, metavar="N", help="tasks at a time (default: all cores)")
    parser.add_argument(
        "--memory", type=_size, default="1g", metavar="SIZE", help="of Java's heap (default: 1g)"
    )


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Make the page; its absolute name is the only line of standard output."""
    absent = [name for name in ("pyspark", "pyarrow", "plotly") if find_spec(name) is None]
    if absent:
        streams.complain(f'it needs {" and ".join(absent)}: pip install "amqpforge[spark]"')
        return 1
    from amqpforge.spark.progress import progress
    from amqpforge.spark.report import STEPS, check, report
    from amqpforge.spark.session import local_session

    try:
        output = _output(arguments.output)
        check(arguments.paths)  # Spark would say late what is wrong with a path.
        with progress(streams, len(STEPS) + 1) as shown:
            shown.begin("starting Spark")
            with local_session("amqpforge report", cores=arguments.cores, memory=arguments.memory) as spark:
                report(spark, arguments.paths, output, dialect=arguments.dialect, told=shown.begin)
    except AmqpforgeError as error:
        streams.complain(str(error))
        return 1
    except OSError as error:
        streams.complain(f"{error.filename or arguments.output}: {error.strerror or error}")
        return 1
    streams.write(str(output))
    return 0


def _output(named: Path) -> Path:
    """The page's absolute name; that it cannot be written is better known before all the work.

    Raises:
        LocalError: it is a folder, or in none, or in one that may not be written to.
    """
    output = named.absolute()
    if output.is_dir():
        raise LocalError(f"{named} is a folder: name the file of the page, such as {named / _OUTPUT}")
    if not output.parent.is_dir():
        raise LocalError(f"{named} cannot be written: there is no folder {output.parent}")
    if not os.access(output.parent, os.W_OK):
        raise LocalError(f"{named} cannot be written: nothing may be written to the folder {output.parent}")
    return output


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cores: give one from 1 to 1024")
    return int(text)


def _size(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,9}[kmgt]", text, re.IGNORECASE | re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no size of memory: give one such as 512m or 2g")
    return text
