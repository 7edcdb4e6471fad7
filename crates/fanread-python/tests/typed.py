"""What a type checker sees; checked by mypy, never run."""

from collections.abc import Mapping, MutableMapping
from typing import assert_type

from fanread import BytesMap, PersistentMap, SortedMap, U64Map


def wants_mapping(some: Mapping[str, int]) -> None: ...
def wants_mutable(some: MutableMapping[bytes, bytes]) -> None: ...


words: SortedMap[str, int] = SortedMap(a=1)
wants_mapping(words)
assert_type(words["a"], int)
assert_type(words.get("a"), int | None)
assert_type(words.peekitem(), tuple[str, int])
assert_type(words.keys()[0], str)
assert_type(words.items()[:1], list[tuple[str, int]])
assert_type(words | {"b": 2}, SortedMap[str, int])
assert_type(list(words.irange("a", reverse=True)), list[str])
words[1] = 2  # type: ignore[index]
wants_mutable(BytesMap())
assert_type(BytesMap().setdefault(b"a", b"1"), bytes)
assert_type(BytesMap().popitem(), tuple[bytes, bytes])
with PersistentMap("path") as stored:
    wants_mutable(stored)
    assert_type(stored[b"a"], bytes)
    assert_type(stored.setdefault(b"a", b"1"), bytes)
    assert_type(stored.popitem(), tuple[bytes, bytes])
assert_type(len(U64Map("i64")), int)
