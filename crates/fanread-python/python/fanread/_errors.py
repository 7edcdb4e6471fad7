"""The exceptions of fanread: all are FanreadError, and each has a base of Python's own too."""


class FanreadError(Exception):
    """Base of all errors of this package."""


class KeyKindError(FanreadError, TypeError):
    """A key is of another kind than the keys of the map; the text names both."""


class KeyTooLongError(FanreadError, ValueError):
    """A key, or a value in a file, has more bytes than the map takes."""


class EmptyMapError(FanreadError, KeyError, TypeError):
    """There is nothing to pop. SortedDict says KeyError here; dict, which takes no index, says TypeError if it gets one."""


class NotSortedError(FanreadError, ValueError):
    """Entries that had to be strictly ascending by key are not; the text says where."""


class OutOfMemoryError(FanreadError, MemoryError):
    """The system gave no memory. The map is unchanged, except by insert_many: its docstring says what is in the map then."""


class ArrayError(FanreadError, TypeError):
    """An array is not what the call takes; the text says what is wanted."""


class ClosedError(FanreadError, ValueError):
    """The file of the map was closed."""


class FileFormatError(FanreadError, ValueError):
    """A file is not of the kind that was asked for, or is damaged."""


class TableBuildError(FanreadError, ValueError):
    """Entries make no table: lengths that differ, a key twice, none at all."""
