"""What the option ``spoolLocation`` may say."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from amqpforge.spark.options import OptionError

__all__ = ["check_location", "inside", "is_uri"]

_S3: Final = frozenset(("endpoint_override", "region", "scheme", "tls_ca_file_path"))
_GCS: Final = frozenset(("endpoint_override", "project_id", "retry_limit_seconds", "scheme"))
_AZURE: Final = frozenset(
    ("blob_storage_authority", "credential_kind", "dfs_storage_authority", "enable_tls")
)
_HADOOP: Final = frozenset(("buffer_size", "default_block_size", "replication", "user"))
_PARAMETERS: Final = {
    "s3": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "hdfs": _HADOOP,
    "viewfs": _HADOOP,
}
"""The schemes of pyarrow, and what may stand behind the question mark: none of that is a secret."""


def is_uri(location: str) -> bool:
    """Whether a location that was checked is a URI; else it is the path of a folder."""
    return not location.startswith("/")


def inside(location: str, name: str) -> str:
    """The location of what has this name in one that was checked."""
    if not is_uri(location):
        return f"{location.rstrip('/')}/{name}"
    parts = urlsplit(location)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def check_location(location: str) -> str:
    """A location as the spool takes it: the path of a folder that every machine of the cluster mounts, or a
    URI that pyarrow knows. Nothing is looked at there.

    Raises:
        OptionError: it is neither, or has what nobody may see: plans and logs show it.
    """
    parts = _split(location)
    if location.startswith("/"):
        return location
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return location.partition(":")[2].removeprefix("//")
    if parts.scheme in ("", "file") or (parts.scheme not in _PARAMETERS and "://" not in location):
        raise OptionError(
            "spoolLocation",
            "is the absolute path of a folder that all machines mount, or a URI such as s3://bucket/folder",
        )
    if parts.scheme not in _PARAMETERS:
        known = ", ".join(f"{scheme}://" for scheme in _PARAMETERS)
        raise OptionError(
            "spoolLocation",
            f"has the scheme {parts.scheme}://, and pyarrow, which reads and writes the spool, has {known}",
        )
    _refuse_secrets(parts)
    if not parts.netloc or parts.fragment or "#" in location:
        raise OptionError("spoolLocation", f"is of the form {parts.scheme}://WHERE/FOLDER, and has no #")
    return location


def _split(location: str) -> SplitResult:
    try:
        return urlsplit(location)
    except ValueError:
        raise OptionError("spoolLocation", "is no URI: its brackets do not match") from None


def _refuse_secrets(parts: SplitResult) -> None:
    """See that nothing in a URI is a secret.

    Raises:
        OptionError: something may be; what, is not repeated.
    """
    user, at, _ = parts.netloc.rpartition("@")
    # The account or the container of Azure stands where a user does.
    is_container = parts.scheme in ("abfs", "abfss") and ":" not in user
    is_bucket_only = parts.scheme not in ("s3", "gs", "gcs") or ":" not in parts.netloc
    if (at and not is_container) or not is_bucket_only:
        raise OptionError(
            "spoolLocation",
            "names a user, a key or a password, which plans and logs would show: pyarrow takes credentials "
            "from the environment of the driver and of the executors",
        )
    allowed = _PARAMETERS[parts.scheme]
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            raise OptionError(
                "spoolLocation",
                f"has the parameter {name!r:.40}; for {parts.scheme}:// there may be "
                f"{', '.join(sorted(allowed))}. Credentials come from the environment",
            )
