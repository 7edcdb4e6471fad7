"""Maps that keep many memory reads in flight at once.

    SortedMap      keys of one kind (bytes, str or int) in order, any values; a drop-in for sortedcontainers.SortedDict
    U64Map         numbers of 8 bytes to such numbers, in order; whole arrays of numpy at a time
    BytesMap       bytes to bytes, in order
    PersistentMap  bytes to bytes, in a file
    CuckooTable    keys of one length to values of one length, in a file that never changes
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
    TableBuildError,
)
from ._fanread import U64Map
from ._maps import BytesMap, CuckooTable, PersistentMap
from ._sorted_map import SortedItemsView, SortedKeysView, SortedMap, SortedValuesView

__all__ = [
    "ArrayError",
    "BytesMap",
    "ClosedError",
    "CuckooTable",
    "EmptyMapError",
    "FanreadError",
    "FileFormatError",
    "KeyKindError",
    "KeyTooLongError",
    "NotSortedError",
    "OutOfMemoryError",
    "PersistentMap",
    "SortedItemsView",
    "SortedKeysView",
    "SortedMap",
    "SortedValuesView",
    "TableBuildError",
    "U64Map",
]
