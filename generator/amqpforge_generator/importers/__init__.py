"""Reading of damaged documents: from a page as found to definitions in the published grammar.

``markup`` finds tags in any text, ``pages`` reads what prose says around them, ``vocabulary`` is a grammar
as data, and ``assembly`` puts the facts together, leaving out what is damaged. Each says, line by line,
what it could not use.
"""

from __future__ import annotations
