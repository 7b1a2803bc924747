"""Selectors: a condition on the properties of a message, in the language of JMS message selectors.

A consumer that has one takes those messages of a queue that the condition is true of (a late binding). The
language is the subset of SQL-92's conditional expressions that JMS 1.1 and 2.0 define in section 3.8.1.1;
``docs/selectors.md`` is its reference.

    selector = Selector("region = 'eu' AND weight > 2.5")
    selector.admits(facts_of(message))
"""

from .errors import SelectorError
from .facts import facts_of
from .limits import DEFAULT_SELECTOR_LIMITS, SelectorLimits
from .selector import Selector

__all__ = ["DEFAULT_SELECTOR_LIMITS", "Selector", "SelectorError", "SelectorLimits", "facts_of"]
