"""Storages for tests: an S3 server on this machine, and a filesystem that behaves as HDFS does."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from moto.server import ThreadedMotoServer
from pyarrow import fs

from amqpforge.spark.source.lease import Times
from amqpforge.spark.source.objects import ObjectStore

__all__ = ["S3", "SERVER_TIMES", "TIMES", "hadoop_like", "local"]

TIMES = Times(lasts=4.0, renews=0.5, settles=0.2, margin=0.2)
"""Long enough for a machine that is busy, and short enough to be waited for, where writing is quick."""

SERVER_TIMES = Times(lasts=6.0, renews=1.0, settles=1.5, margin=0.5)
"""The same for a server in a thread: on a busy machine it takes tenths of a second for a small file."""


class S3:
    """An S3 server. It keeps what it has while it is stopped."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0)
        self._server.start()
        self.port: int = self._server.get_host_and_port()[1]

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[S3]:
        """One with the bucket ``spools``, and keys for it in the environment."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        environment = {
            "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        with patch.dict(os.environ, environment):
            server = cls()
            try:
                server.filesystem().create_dir("spools")
                yield server
            finally:
                server.stop()

    def filesystem(self) -> Any:
        return fs.S3FileSystem(
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            allow_bucket_creation=True,
        )

    def location(self, folder: str) -> str:
        query = f"region=us-east-1&scheme=http&endpoint_override=127.0.0.1%3A{self.port}"
        return f"s3://spools/{folder}?{query}"

    def names(self, folder: str) -> list[str]:
        """All objects in a folder."""
        found = self.filesystem().get_file_info(fs.FileSelector(f"spools/{folder}", allow_not_found=True))
        return sorted(info.base_name for info in found)

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self.port)
        self._server.start()


def local(folder: Path, **more: Any) -> ObjectStore:
    """Files of this machine, as an object store has them."""
    return ObjectStore(
        "s3://not/there",
        **{"times": TIMES} | more,
        filesystem=(fs.LocalFileSystem(), str(folder)),
    )


def hadoop_like(folder: Path) -> ObjectStore:
    """Files of this machine, as HDFS has them: seen while they are written, and never renamed over others."""
    return ObjectStore(
        "hdfs://not/there", times=TIMES, filesystem=(fs.PyFileSystem(_HadoopLike()), str(folder))
    )


class _HadoopLike(fs.FileSystemHandler):  # type: ignore[misc]
    """What a spool needs of HDFS."""

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._files.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._files.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._files.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self._files.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        if Path(dest).exists():
            raise OSError(f"{dest} is there already")
        self._files.move(src, dest)

    def open_input_file(self, path: str) -> Any:
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        Path(path).write_bytes(b"")
        return self._files.open_output_stream(path)

    def _refuse(self, *_: object) -> None:
        raise NotImplementedError("a spool has no need of it")

    delete_dir = delete_dir_contents = delete_root_dir_contents = copy_file = _refuse
    open_input_stream = open_append_stream = _refuse
