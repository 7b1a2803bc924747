"""Python workers import pyspark from where it is installed, and not from the zip beside its jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge.spark.session import _spark_home


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What an installed pyspark has that matters here."""
    folder = tmp_path / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (folder / name).mkdir(parents=True)
    (folder / "bin" / "spark-submit").touch()
    (folder / "python" / "lib" / "pyspark.zip").touch()
    return folder


def test_there_are_programs_and_jars_and_no_zip(installed: Path, tmp_path: Path) -> None:
    home = _spark_home(installed, tmp_path / "home")
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars").is_dir()
    assert not (home / "python").exists()


def test_without_links_it_is_the_installed_one(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("links are not allowed")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert _spark_home(installed, tmp_path / "home") == installed
