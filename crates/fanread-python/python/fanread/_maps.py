"""BytesMap, PersistentMap and CuckooTable: the parts that need not be fast. The rest is in the compiled half."""

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView

from ._fanread import BytesMapBase, CuckooTableBase, PersistentMapBase
from ._sorted_map import _pair


class _Items(ItemsView):
    """The pairs of an ordered map, in the order of keys."""

    __slots__ = ()

    def __iter__(self):
        return self._mapping._walk("i", None, None, (True, True), False)

    def __reversed__(self):
        return self._mapping._walk("i", None, None, (True, True), True)


class _EachValue(ValuesView):
    """Values that are found without their keys, since a key may be gone by then."""

    __slots__ = ()

    def __contains__(self, value):
        return any(found == value for found in self)


class _Values(_EachValue):
    """The values of an ordered map, in the order of keys."""

    __slots__ = ()

    def __iter__(self):
        return self._mapping._walk("v", None, None, (True, True), False)

    def __reversed__(self):
        return self._mapping._walk("v", None, None, (True, True), True)


class _Keys(KeysView):
    """The keys of an ordered map, in order."""

    __slots__ = ()

    def __reversed__(self):
        return reversed(self._mapping)


class _Ordered:
    """What the ordered maps on bytes have in common."""

    __slots__ = ()

    def keys(self):
        """Return a view of the keys, in order."""
        return _Keys(self)

    def items(self):
        """Return a view of the pairs, in the order of keys."""
        return _Items(self)

    def values(self):
        """Return a view of the values, in the order of keys."""
        return _Values(self)

    def irange(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """Return an iterator over the keys from minimum to maximum; None is no limit."""
        return self._walk("k", minimum, maximum, _pair(inclusive), bool(reverse))

    def irange_items(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """Return an iterator over the pairs whose keys are from minimum to maximum; None is no limit."""
        return self._walk("i", minimum, maximum, _pair(inclusive), bool(reverse))


class BytesMap(_Ordered, BytesMapBase, MutableMapping):
    """A mapping from bytes to bytes, ordered by key; takes what dict takes.

    Keys have at most 65,535 bytes. Keys and values are copied into the map and out of it. Another type is a TypeError, in lookups
    too. popitem takes the pair with the largest key. Iterators go on while the map changes: keys come strictly in order, and one
    that is there all the time is met.
    """

    __hash__ = None

    def __init__(self, *args, **kwargs):
        self.update(*args, **kwargs)

    def prefix(self, prefix, reverse=False):
        """Return an iterator over the keys that start with prefix."""
        return self._walk_prefix("k", prefix, bool(reverse))

    def prefix_items(self, prefix, reverse=False):
        """Return an iterator over the pairs whose keys start with prefix."""
        return self._walk_prefix("i", prefix, bool(reverse))

    @classmethod
    def from_sorted(cls, pairs):
        """Return a new map with the pairs of an iterable, whose keys are strictly ascending; NotSortedError if they are not."""
        made = cls.__new__(cls)
        made._load_sorted(pairs)
        return made

    def copy(self):
        """Return a new map with the same entries."""
        return self.from_sorted(self.items())

    __copy__ = copy

    def __reduce__(self):
        return type(self), (), self.__dict__ or None, None, iter(self.items())

    def __repr__(self):
        return f"<fanread.{type(self).__name__} of {len(self)} entries>"


class PersistentMap(PersistentMapBase, MutableMapping):
    """A mapping from bytes to bytes in a file, which outlives the process; in no order.

    PersistentMap(path, flag="c", *, checkpoints=False): flag is "c" to open the file or make it, "n" to make a new one, which must
    not be there, and "w" to open one that must be there. With checkpoints a new file keeps what sync() has written through a power
    cut at any moment. Whether a file has them is decided when it is made: checkpoints=True for one that was made without is a
    ValueError; durability says what a file survives.

    It is a context manager, and closes the file at the end. A call after that is a ClosedError; what the system refuses is an
    OSError; a file of another kind, or a damaged one, is a FileFormatError. Keys, items and values iterate over what is there
    when they begin, which they copy. popitem takes any pair.
    """

    __hash__ = None

    def items(self):
        """Return a view of the pairs, in no order."""
        return _StoredItems(self)

    def values(self):
        """Return a view of the values, in no order."""
        return _StoredValues(self)

    def __repr__(self):
        state = "closed" if self.closed else f"{len(self)} entries"
        return f"<fanread.{type(self).__name__} {str(self.path)!r}, {state}>"


class _StoredItems(ItemsView):
    """The pairs of a map in a file."""

    __slots__ = ()

    def __iter__(self):
        return iter(self._mapping.pairs())


class _StoredValues(_EachValue):
    """The values of a map in a file."""

    __slots__ = ()

    def __iter__(self):
        return (value for _, value in self._mapping.pairs())


class CuckooTable(_Ordered, CuckooTableBase, Mapping):
    """A table in a file: keys of one length to values of one length, both bytes, that never change.

    CuckooTable(path) opens a file that CuckooTable.build or RocksDB has written. A lookup takes one line of memory, sometimes two. The
    first scan reads and sorts the whole table. What the system refuses is an OSError; a file of another kind, or a damaged
    one, is a FileFormatError.
    """

    __hash__ = None

    def __repr__(self):
        return f"<fanread.{type(self).__name__} {str(self.path)!r}, {len(self)} entries>"
