"""Maps that keep many memory reads in flight at once.

    SortedMap      keys of one kind (bytes, str or int) in order, any values; a drop-in for sortedcontainers.SortedDict
    U64Map         numbers of 8 bytes to such numbers, in order; whole arrays of numpy at a time
"""

from ._errors import (
    ArrayError,
    ClosedError,
    EmptyMapError,
    FanreadError,
    FileFormatError,
    KeyKindError,
    KeyTooLongError,
    NotSortedError,
    OutOfMemoryError,
)
from ._fanread import U64Map
from ._sorted_map import SortedItemsView, SortedKeysView, SortedMap, SortedValuesView

__all__ = [
    "ArrayError",
    "ClosedError",
    "EmptyMapError",
    "FanreadError",
    "FileFormatError",
    "KeyKindError",
    "KeyTooLongError",
    "NotSortedError",
    "OutOfMemoryError",
    "SortedItemsView",
    "SortedKeysView",
    "SortedMap",
    "SortedValuesView",
    "U64Map",
]
