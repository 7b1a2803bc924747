"""Captured AMQP traffic as a table: the data source ``amqp_capture``.

From the file to the row, each module knows only those before it:

- `options` reads what the user said, `inputs` finds the files;
- `joining` puts the message together that several transfers carry;
- `cutting` cuts a connection into frames, `rows` makes record batches of frames;
- `walk` follows a file from any place that was marked, `plan` marks the places and makes tasks of them;
- `source` is what Spark calls.
"""

from __future__ import annotations
