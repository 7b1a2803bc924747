"""What traces the system calls of a process."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["strace"]


def strace() -> tuple[str]:
    """The command; without it a test is skipped, but not where everything has to be proven."""
    if shutil.which("strace") is None:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail("strace is missing: install the package of this name")
        pytest.skip("strace is not installed")
    return ("strace",)
