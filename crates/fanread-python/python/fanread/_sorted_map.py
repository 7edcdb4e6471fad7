"""SortedMap: the parts that need not be fast. The rest is SortedMapBase, in the compiled half."""

import copyreg
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, Sequence, ValuesView
from reprlib import recursive_repr
from types import GenericAlias

from ._fanread import SortedMapBase

_MISSING = object()


def _delete_from_view(view, index):
    """Remove the entry or entries at an index or a slice. Costs a walk there."""
    mapping = view._mapping
    if isinstance(index, slice):
        for key in mapping.keys()[index]:
            del mapping[key]
    else:
        mapping.popitem(index)


def _select(mapping, what, index):
    """What is at an index or a slice of a view."""
    if not isinstance(index, slice):
        key, value = mapping.peekitem(index)
        return key if what == "k" else value if what == "v" else (key, value)
    start, stop, step = index.indices(len(mapping))
    if step < 0:
        span = range(start, stop, step)
        if not span:
            return []
        return list(mapping._walk_ranks(what, span[-1], start + 1, True))[::-step]
    return list(mapping._walk_ranks(what, start, stop, False))[::step]


class _View:
    """What the views have in common: they see the map as it is, and are indexed by rank."""

    __slots__ = ()
    _what = "k"

    def __iter__(self):
        return self._mapping._walk(self._what, None, None, (True, True), False)

    def __reversed__(self):
        return self._mapping._walk(self._what, None, None, (True, True), True)

    def __getitem__(self, index):
        """Return what is at an index, or the list of what is in a slice. Costs a walk from the nearer end."""
        return _select(self._mapping, self._what, index)

    __delitem__ = _delete_from_view


class SortedKeysView(_View, KeysView, Sequence):
    """The keys of a SortedMap as they are, in order: a set and a sequence.

    Set operations return a set. Indexing costs a walk from the nearer end.
    """

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, it):
        return set(it)

    def index(self, value, start=None, stop=None):
        """Return the rank of a key; ValueError if it is not there. Counts the keys below."""
        return self._mapping.index(value, start, stop)

    def count(self, value):
        """Return 1 if the key is there, else 0."""
        return 1 if value in self._mapping else 0


class SortedItemsView(_View, ItemsView, Sequence):
    """The pairs of a SortedMap as they are, in the order of their keys: a set and a sequence.

    Set operations return a set, and need values that can be hashed. Indexing costs a walk from the nearer end.
    """

    __slots__ = ()
    _what = "i"

    @classmethod
    def _from_iterable(cls, it):
        return set(it)


class SortedValuesView(_View, ValuesView, Sequence):
    """The values of a SortedMap as they are, in the order of their keys: a sequence.

    Indexing costs a walk from the nearer end.
    """

    __slots__ = ()
    _what = "v"


class SortedMap(SortedMapBase, MutableMapping):
    """A mapping ordered by its keys, which are all bytes, all str or all int. Values are any objects.

    SortedMap(), SortedMap(mapping), SortedMap(pairs), SortedMap(**items) and combinations work as with dict; a first argument
    None is skipped, as SortedDict takes it. The first key decides what the keys are; SortedMap.of(int) decides before. Storing
    another kind, or asking for its place in the order, is a KeyKindError (a TypeError); looking for one finds nothing, as in dict.

    bool and subclasses are kept as what they equal: True as 1. A float, a number of numpy's, or another one that equals an int
    finds it, but cannot be stored.
    Keys come back as new objects of exactly these types, equal to those stored. A key has at most 65,535 bytes.

    Ranks (peekitem, popitem, index, bisect, islice, and views indexed) cost a walk from an end.

    All calls hold the interpreter's lock. An iterator raises RuntimeError when the number of entries has changed meanwhile.
    """

    __hash__ = None
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, *args, **kwargs):
        if args and (args[0] is None or callable(args[0])):
            if args[0] is not None:
                raise TypeError(
                    "SortedMap orders keys by themselves and takes no key function; "
                    "store what the function returns as key, or use sortedcontainers.SortedDict"
                )
            args = args[1:]
        self.update(*args, **kwargs)

    @classmethod
    def of(cls, kind, /, *args, **kwargs):
        """Return a new map for keys of a kind: bytes, str or int. What follows is as for SortedMap."""
        made = cls.__new__(cls)
        made._fix_kind(kind)
        made.__init__(*args, **kwargs)
        return made

    @classmethod
    def fromkeys(cls, iterable, value=None):
        """Return a new map with the keys of an iterable, all with the same value."""
        return cls((key, value) for key in iterable)

    @classmethod
    def from_sorted(cls, pairs):
        """Return a new map with the pairs of an iterable, whose keys are strictly ascending.

        Faster than inserting them, but the map takes more memory. Raises NotSortedError if a key is not above the one before it.
        """
        made = cls()
        made._load_sorted(pairs)
        return made

    @property
    def key(self):
        """None: there is no key function. (SortedDict has this property.)"""
        return None

    def update(self, *args, **kwargs):
        """Insert the entries of a mapping, or the pairs of an iterable, and then the keyword arguments."""
        if len(args) > 1:
            raise TypeError(f"update expected at most 1 argument, got {len(args)}")
        if args:
            other = args[0]
            if isinstance(other, (dict, SortedMap)):
                self._insert_pairs(other.items())
            elif hasattr(other, "keys"):
                for key in other.keys():
                    self[key] = other[key]
            else:
                self._insert_pairs(other)
        if kwargs:
            self._insert_pairs(kwargs.items())

    def pop(self, key, default=_MISSING):
        """Remove key and return its value. Without the key return default, or raise KeyError if there is none."""
        return self._pop(key) if default is _MISSING else self._pop(key, default)

    def keys(self):
        """Return a view of the keys."""
        return SortedKeysView(self)

    def items(self):
        """Return a view of the pairs."""
        return SortedItemsView(self)

    def values(self):
        """Return a view of the values."""
        return SortedValuesView(self)

    def bisect(self, value):
        """Return how many keys are up to value. Counts them."""
        return self.bisect_right(value)

    def index(self, value, start=None, stop=None):
        """Return the rank of a key, if it is from start to before stop; ValueError if not. Counts the keys below."""
        rank = self._rank_of(value)
        if rank is not None:
            start, stop, _ = slice(start, stop).indices(len(self))
            if start <= rank < stop:
                return rank
        raise ValueError(f"{value!r} is not in list")

    def count(self, value):
        """Return 1 if the key is there, else 0."""
        return 1 if value in self else 0

    def islice(self, start=None, stop=None, reverse=False):
        """Return an iterator over the keys from one rank to before another. Walks to the first."""
        start, stop, _ = slice(start, stop).indices(len(self))
        return self._walk_ranks("k", start, stop, bool(reverse))

    def irange(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """Return an iterator over the keys from minimum to maximum; None is no limit."""
        return self._walk("k", minimum, maximum, _pair(inclusive), bool(reverse))

    def irange_items(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """Return an iterator over the pairs whose keys are from minimum to maximum; None is no limit."""
        return self._walk("i", minimum, maximum, _pair(inclusive), bool(reverse))

    def irange_values(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """Return an iterator over the values whose keys are from minimum to maximum; None is no limit."""
        return self._walk("v", minimum, maximum, _pair(inclusive), bool(reverse))

    def prefix(self, prefix, reverse=False):
        """Return an iterator over the keys that start with prefix: bytes or str, as the keys are."""
        return self._walk_prefix("k", prefix, bool(reverse))

    def prefix_items(self, prefix, reverse=False):
        """Return an iterator over the pairs whose keys start with prefix."""
        return self._walk_prefix("i", prefix, bool(reverse))

    def copy(self):
        """Return a new map with the same keys and values."""
        made = self._empty()
        made._insert_pairs(self.items())
        return made

    __copy__ = copy

    def _empty(self):
        kind = self._fixed_kind()
        return self.__class__() if kind is None else self.__class__.of(kind)

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self._empty()
        made.update(other)
        made.update(self)
        return made

    def __ior__(self, other):
        self.update(other)
        return self

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        for key, value in self.items():
            found = other.get(key, _MISSING)
            if found is _MISSING or not (found is value or found == value):
                return False
        return True

    def __reduce__(self):
        state = (self._fixed_kind(), self.__dict__)
        return copyreg.__newobj__, (type(self),), state, None, iter(self.items())

    def __setstate__(self, state):
        kind, attributes = state
        if kind is not None:
            self._fix_kind(kind)
        self.__dict__.update(attributes)

    @recursive_repr()
    def __repr__(self):
        items = ", ".join(f"{key!r}: {value!r}" for key, value in self.items())
        return f"{type(self).__name__}({{{items}}})"


def _pair(inclusive):
    low, high = inclusive
    return bool(low), bool(high)
