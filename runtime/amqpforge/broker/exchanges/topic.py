"""The topic type: keys are words between dots; in patterns ``*`` is any one word, ``#`` any number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .matcher import Matcher
from .values import check_key

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding

__all__ = ["TopicMatcher"]

_ANY = "*"
_REST = "#"


class _Node:
    """A place in a pattern: what can come next, and the bindings whose patterns end here."""

    __slots__ = ("any", "bindings", "repeats", "rest", "words")

    def __init__(self, *, repeats: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.rest: _Node | None = None
        self.repeats = repeats  # Behind a "#": any word leads back here.
        self.bindings: dict[Binding, None] = {}

    def __bool__(self) -> bool:
        return bool(self.bindings or self.words or self.any or self.rest)


class TopicMatcher(Matcher):
    """A tree of the words of all patterns, walked along all branches at once.

    A walk is at any place once only, however many ways lead there: a message takes at most as many steps as
    its key has words (256) times places of the tree that begin like the key. Arguments do not count.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in _pattern(binding.key):
            if word == _ANY:
                node.any = node = node.any or _Node()
            elif word == _REST:
                node.rest = node = node.rest or _Node(repeats=True)
            else:
                node = node.words.setdefault(word, _Node())
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        words = _pattern(binding.key)
        path = [self._root]
        for word in words:
            path.append(_next(path[-1], word))
        del path[-1].bindings[binding]
        for parent, word, node in zip(reversed(path[:-1]), reversed(words), reversed(path), strict=False):
            if node:
                break
            if word == _ANY:
                parent.any = None
            elif word == _REST:
                parent.rest = None
            else:
                del parent.words[word]

    def match(self, message: Message) -> Iterable[Binding]:
        """The bindings whose patterns the key fits.

        Raises:
            InvalidArgument: the key has more than 255 octets.
        """
        check_key(message.key)
        places: dict[_Node, None] = {}
        _reach(places, self._root)
        for word in _words(message.key):
            reached: dict[_Node, None] = {}
            for node in places:
                if node.repeats:
                    _reach(reached, node)
                if node.any is not None:
                    _reach(reached, node.any)
                if word in node.words:
                    _reach(reached, node.words[word])
            places = reached
        return [binding for node in places for binding in node.bindings]


def _words(key: str) -> list[str]:
    """The words of a key. An empty key has none; two dots have an empty one between them."""
    return key.split(".") if key else []


def _pattern(key: str) -> list[str]:
    """The words of a pattern; ``#`` follows ``#`` nowhere, as one says the same."""
    words = _words(key)
    return [word for word, before in zip(words, ["", *words], strict=False) if not word == before == _REST]


def _next(node: _Node, word: str) -> _Node:
    following = node.any if word == _ANY else node.rest if word == _REST else node.words[word]
    if following is None:
        raise KeyError(word)
    return following


def _reach(places: dict[_Node, None], node: _Node) -> None:
    """Be at a node, and behind the one ``#`` that may follow, since that may stand for nothing."""
    places[node] = None
    if node.rest is not None:
        places[node.rest] = None
