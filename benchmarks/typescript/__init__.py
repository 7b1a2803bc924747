"""The TypeScript package beside rhea's codec, in one process of Node."""

from benchmarks.typescript.rows import CASE, Row, lines, measure

__all__ = ["CASE", "Row", "lines", "measure"]
