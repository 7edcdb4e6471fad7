"""Maps that keep many memory reads in flight at once.

    SortedMap      keys of one kind (bytes, str or int) in order, any values; a drop-in for sortedcontainers.SortedDict
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
]
