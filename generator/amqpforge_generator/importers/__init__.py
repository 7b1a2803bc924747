"""Reading of damaged documents: from a page as found to definitions in the published grammar.

``markup`` finds tags in any text, ``pages`` reads what prose says around them, ``vocabulary`` is the grammars
as data, and ``assembly`` with ``sections`` and ``classes`` puts the facts together, leaving out what is
damaged. Each says, line by line, what it could not use.
"""

from __future__ import annotations
