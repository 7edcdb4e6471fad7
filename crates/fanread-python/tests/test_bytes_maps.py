"""BytesMap, PersistentMap and CuckooTable against dict and sorted list, and what they refuse."""

import copy
import pickle
import sys
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import fanread
from fanread import BytesMap, CuckooTable, PersistentMap

KEY = st.binary(max_size=3) | st.binary(max_size=60)
VALUE = st.binary(max_size=3) | st.binary(max_size=200)


class Both(RuleBasedStateMachine):
    """Point calls, for a map in memory and one in a file."""

    def __init__(self):
        super().__init__()
        self.model = {}
        self.map = self.make()

    @rule(key=KEY, value=VALUE)
    def insert(self, key, value):
        self.map[key] = self.model[key] = value

    @rule(pairs=st.lists(st.tuples(KEY, VALUE), max_size=40))
    def insert_many(self, pairs):
        self.map.insert_many(pairs)
        self.model.update(pairs)

    @rule(pairs=st.dictionaries(KEY, VALUE, max_size=5))
    def update(self, pairs):
        self.map.update(pairs)
        self.model.update(pairs)

    @rule(key=KEY, value=VALUE)
    def setdefault(self, key, value):
        assert self.map.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=KEY)
    def pop(self, key):
        assert self.map.pop(key, None) == self.model.pop(key, None)

    @rule(key=KEY)
    def delete(self, key):
        if key in self.model:
            del self.map[key], self.model[key]
        else:
            with pytest.raises(KeyError):
                del self.map[key]
            with pytest.raises(KeyError):
                self.map[key]
            with pytest.raises(KeyError):
                self.map.pop(key)

    @rule(keys=st.lists(KEY, max_size=40))
    def get_many(self, keys):
        assert self.map.get_many(keys) == [self.model.get(key) for key in keys]
        assert self.map.get_many(iter(keys), b"none") == [self.model.get(key, b"none") for key in keys]

    @rule()
    def clear(self):
        self.map.clear()
        self.model.clear()

    @invariant()
    def is_the_model(self):
        assert len(self.map) == len(self.model)
        assert dict(self.map.items()) == self.model == self.map
        assert sorted(self.map) == sorted(self.model)
        assert sorted(self.map.values()) == sorted(self.model.values())
        assert all(key in self.map and self.map[key] == self.map.get(key) == value for key, value in self.model.items())


class InMemory(Both):
    make = BytesMap

    @rule(key=KEY, other=KEY, low=st.booleans(), high=st.booleans(), reverse=st.booleans())
    def order(self, key, other, low, high, reverse):
        keys = sorted(self.model)
        inside = [k for k in keys if (key <= k if low else key < k) and (k <= other if high else k < other)]
        inside = inside[::-1] if reverse else inside
        assert list(self.map.irange(key, other, (low, high), reverse)) == inside
        assert list(self.map.irange_items(key, other, (low, high), reverse)) == [(k, self.model[k]) for k in inside]
        assert list(self.map) == keys
        assert list(reversed(self.map)) == list(reversed(self.map.keys())) == keys[::-1]
        assert list(reversed(self.map.items())) == [(k, self.model[k]) for k in keys[::-1]]
        assert list(self.map.prefix(key)) == [k for k in keys if k.startswith(key)]
        assert dict(self.map.prefix_items(key)) == {k: v for k, v in self.model.items() if k.startswith(key)}

    @rule(key=KEY)
    def neighbours(self, key):
        below = [k for k in sorted(self.model) if k < key]
        above = [k for k in sorted(self.model) if k > key]

        def pair(keys):
            return (keys[0], self.model[keys[0]]) if keys else None

        here = [key] if key in self.model else []
        assert self.map.lower(key) == pair(below[-1:])
        assert self.map.floor(key) == pair(here or below[-1:])
        assert self.map.higher(key) == pair(above)
        assert self.map.ceiling(key) == pair(here or above)

    @rule(keys=st.lists(KEY, max_size=40))
    def contains_many(self, keys):
        assert self.map.contains_many(keys) == [key in self.model for key in keys]

    @rule()
    def copies(self):
        self.map = pickle.loads(pickle.dumps(copy.copy(self.map)))


class InAFile(Both):
    def make(self):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name + "/map"
        return PersistentMap(self.path)

    @rule()
    def reopen(self):
        self.map.close()
        self.map = PersistentMap(self.path, "w")

    @rule()
    def sync(self):
        self.map.sync()

    def teardown(self):
        self.map.close()
        self.folder.cleanup()


TestBytesMap = InMemory.TestCase
TestPersistentMap = InAFile.TestCase


class Tables(RuleBasedStateMachine):
    """Builds tables, and asks for everything in them."""

    @rule(
        entries=st.dictionaries(st.binary(min_size=5, max_size=5) | st.integers(0, 300).map(lambda n: n.to_bytes(5, "big")),
                                st.binary(min_size=3, max_size=3), min_size=1, max_size=300),
        strangers=st.lists(st.binary(max_size=6), max_size=20),
    )
    def build(self, entries, strangers):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/table"
            assert CuckooTable.build(path, entries.items()) == len(entries)
            table = CuckooTable(path)
            table.check()
            keys = sorted(entries)
            assert table == entries
            assert len(table) == len(entries)
            assert list(table) == list(table.keys()) == keys
            assert list(reversed(table)) == keys[::-1]
            assert list(table.items()) == sorted(entries.items())
            assert list(table.values()) == [entries[key] for key in keys]
            assert table.get_many(keys + strangers) == [entries.get(key) for key in keys + strangers]
            assert [key in table for key in strangers] == [key in entries for key in strangers]
            for low in strangers[:5]:
                assert list(table.irange(low)) == [key for key in keys if key >= low]
                assert list(table.irange(None, low, reverse=True)) == [key for key in keys if key <= low][::-1]
            assert (table.key_bytes, table.value_bytes) == (5, 3)
            assert table.stats()["entries"] == len(entries)
            assert table.nbytes > 0


TestCuckooTable = Tables.TestCase
TestCuckooTable.settings = settings(max_examples=15, stateful_step_count=4)  # each step writes a file through to the disk


def test_other_types_are_refused():
    made = BytesMap({b"a": b"1"})
    for call in (
        lambda: made["a"],
        lambda: "a" in made,
        lambda: made.get(1),
        lambda: made.__setitem__(b"a", "1"),
        lambda: made.__setitem__(bytearray(b"a"), b"1"),
        lambda: made.get_many([b"a", "a"]),
        lambda: made.get_many(5),
        lambda: made.insert_many([(b"a", 5)]),
        lambda: made.irange("a"),
        lambda: BytesMap(a=b"1"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(fanread.KeyTooLongError):
        made[b"x" * 65_536] = b""
    assert made == {b"a": b"1"}
    assert made.nbytes > 0
    assert sys.getsizeof(made) > made.nbytes
    assert repr(made) == "<fanread.BytesMap of 1 entries>"


def test_from_sorted_takes_ascending_keys_only():
    pairs = [(n.to_bytes(3, "big"), str(n).encode()) for n in range(20_000)]
    made = BytesMap.from_sorted(pairs)
    assert list(made.items()) == pairs
    made[b""] = b""
    assert made.ceiling(b"") == (b"", b"")
    for wrong in ([(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", b"")]):
        with pytest.raises(fanread.NotSortedError, match="entry 1 is not above"):
            BytesMap.from_sorted(wrong)
    with pytest.raises(TypeError):
        BytesMap.from_sorted([(b"a", 5)])
    assert BytesMap.from_sorted([]) == {}


def test_a_closed_map_says_so(tmp_path):
    with PersistentMap(tmp_path / "map", "n") as made:
        made[b"a"] = b"1"
        assert made.durability in ("process", "checkpoint", "persistent")
        assert made.stats()["entries"] == 1
        assert made.nbytes >= made.stats()["bytes"]
        assert "1 entries" in repr(made)
    assert made.closed
    made.close()
    for call in (
        lambda: made[b"a"],
        lambda: b"a" in made,
        lambda: len(made),
        lambda: list(made),
        lambda: made.__setitem__(b"a", b"2"),
        lambda: made.get_many([b"a"]),
        made.sync,
        made.__enter__,
    ):
        with pytest.raises(fanread.ClosedError, match="closed") as caught:
            call()
        assert isinstance(caught.value, ValueError)
    assert made.nbytes == 0
    assert "closed" in repr(made)


def test_an_exception_in_a_with_block_closes_and_goes_on(tmp_path):
    with pytest.raises(ZeroDivisionError), PersistentMap(tmp_path / "map") as made:
        made[b"a"] = b"1"
        1 / 0
    assert made.closed
    assert PersistentMap(tmp_path / "map")[b"a"] == b"1"


def test_flags_say_what_is_opened(tmp_path):
    path = tmp_path / "map"
    with pytest.raises(FileNotFoundError):
        PersistentMap(path, "w")
    PersistentMap(path, "n").close()
    with pytest.raises(FileExistsError) as caught:
        PersistentMap(path, "n")
    assert caught.value.filename == str(path)
    with PersistentMap(path, "w"), pytest.raises(BlockingIOError, match="open already"):
        PersistentMap(path, "w")
    with pytest.raises(ValueError, match="flag"):
        PersistentMap(path, "r")
    with pytest.raises(OSError):
        PersistentMap(tmp_path)


def test_with_checkpoints_a_file_keeps_what_was_synced(tmp_path):
    with PersistentMap(tmp_path / "map", checkpoints=True) as made:
        assert made.durability == "checkpoint"
        made[b"a"] = b"1"
        made.sync()
    with PersistentMap(tmp_path / "map") as made:
        assert made.durability == "checkpoint"
        assert dict(made) == {b"a": b"1"}


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"no map, no table" * 4096)
    for opened in (PersistentMap, CuckooTable):
        with pytest.raises(fanread.FileFormatError, match="not a") as caught:
            opened(path)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(FileNotFoundError, match="missing"):
        CuckooTable(tmp_path / "missing")


def test_a_damaged_table_is_found_out(tmp_path):
    path = tmp_path / "table"
    CuckooTable.build(path, ((n.to_bytes(4, "big"), b"value") for n in range(1000)))
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(fanread.FileFormatError):
        CuckooTable(path).check()


@pytest.mark.parametrize(
    "pairs", [[], [(b"a", b"1"), (b"ab", b"1")], [(b"a", b"1"), (b"b", b"")], [(b"a", b"1"), (b"a", b"1")], [(b"", b"")]]
)
def test_entries_that_make_no_table_leave_no_file(tmp_path, pairs):
    with pytest.raises(fanread.TableBuildError):
        CuckooTable.build(tmp_path / "table", pairs)
    assert not list(tmp_path.iterdir())


def test_tables_never_change(tmp_path):
    CuckooTable.build(tmp_path / "table", [(b"a", b"1")])
    table = CuckooTable(tmp_path / "table")
    with pytest.raises(TypeError):
        table[b"a"] = b"2"
    with pytest.raises(KeyError):
        table[b"b"]
    assert table.get(b"b", 5) == 5
    assert "1 entries" in repr(table)


def test_threads_share_maps_and_close_waits_for_them(tmp_path):
    memory, stored = BytesMap(), PersistentMap(tmp_path / "map")
    barrier = threading.Barrier(4)
    wrong = []

    def work(mine):
        barrier.wait()
        for n in range(mine, 4_000, 4):
            key = n.to_bytes(4, "big")
            for made in (memory, stored):
                made[key] = key * 3
                if made.get_many([key, b"?"]) != [key * 3, None]:
                    wrong.append(n)
        found = list(memory.irange(b"\x00"))
        if found != sorted(set(found)):
            wrong.append(-1)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert dict(memory) == dict(stored) == {n.to_bytes(4, "big"): n.to_bytes(4, "big") * 3 for n in range(4_000)}
    keys = list(memory)
    ended = []

    def ask():
        try:
            while True:
                stored.get_many(keys)
        except fanread.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    stored.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
