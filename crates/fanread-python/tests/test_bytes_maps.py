"""BytesMap, PersistentMap and CuckooTable against dict and sorted list, and what they refuse."""

import copy
import itertools
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

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
    def popitem(self):
        if self.model:
            key, value = self.map.popitem()
            assert self.may_be_popped(key)
            assert self.model.pop(key) == value
        else:
            with pytest.raises(KeyError):
                self.map.popitem()

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

    def may_be_popped(self, key):
        return key == max(self.model)

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

    def may_be_popped(self, key):
        return key in self.model

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
        lambda: made.setdefault(b"b", 5),
        lambda: made.setdefault(b"b"),
        lambda: made.setdefault("a", b""),
        lambda: made.irange("a"),
        lambda: BytesMap(a=b"1"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(fanread.KeyTooLongError):
        made[b"x" * 65_536] = b""
    with pytest.raises(fanread.KeyTooLongError, match="65536"):
        made.setdefault(b"x" * 65_536, b"")
    assert made.setdefault(b"a") == b"1"
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
        lambda: made.insert_many([(b"a", b"2")]),
        lambda: made.setdefault(b"a", b"2"),
        made.popitem,
        made.clear,
        made.sync,
        made.__enter__,
    ):
        with pytest.raises(fanread.ClosedError, match="closed") as caught:
            call()
        assert isinstance(caught.value, ValueError)
    assert made.nbytes == 0
    assert "closed" in repr(made)


LARGE = """
import resource
from fanread import BytesMap
made = BytesMap((b"%03d" % n, bytes(1 << 20)) for n in range(200))
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20), -1))
assert len(list(made)) == len(list(reversed(made))) == 200
assert sum(len(value) for value in made.values()) == 200 << 20
assert all(len(value) == 1 << 20 for _, value in reversed(made.items()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_walk_copies_few_large_values_at_a_time():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ends_are_inside_by_whatever_is_true():
    made = BytesMap({b"a": b"1", b"b": b"2"})
    assert list(made.irange(b"a", b"b", (1, 0))) == [b"a"]
    assert list(made.irange_items(b"a", b"b", [0, 1])) == [(b"b", b"2")]


class Noted(BytesMap):
    """At the top of the file, where pickle finds it."""


def test_pickling_keeps_attributes():
    made = Noted({b"a": b"1"})
    made.note = ["kept"]
    for kept in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(kept) is Noted
        assert kept == made
        assert kept.note == ["kept"]


def test_values_of_a_file_go_on_though_their_keys_are_gone(tmp_path):
    with PersistentMap(tmp_path / "map") as made:
        made.update({b"a": b"1", b"b": b"2", b"c": b"3"})
        assert b"2" in made.values()
        assert b"4" not in made.values()
        seen = []
        for value in made.values():
            seen.append(value)
            made.clear()
        assert sorted(seen) == [b"1", b"2", b"3"]


def test_who_closes_again_finds_the_file_closed(tmp_path):
    path = tmp_path / "map"
    made = PersistentMap(path, checkpoints=True)
    made.insert_many((b"%d" % n, bytes(200)) for n in range(20_000))
    first = threading.Thread(target=made.close)
    first.start()
    while not made.closed:
        pass
    made.close()
    with PersistentMap(path, "w") as again:
        assert len(again) == 20_000
    first.join()


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


def test_a_file_without_checkpoints_is_not_opened_as_if_it_had_them(tmp_path):
    path = tmp_path / "map"
    with PersistentMap(path) as made:
        made[b"a"] = b"1"
        if made.durability == "persistent":
            pytest.skip("this file survives more")
    for flag in ("c", "w"):
        with pytest.raises(ValueError, match="checkpoints: .*map was made without"):
            PersistentMap(path, flag, checkpoints=True)
    # It is closed again, and as it was.
    with PersistentMap(path) as made:
        assert made.durability == "process"
        assert dict(made) == {b"a": b"1"}
    assert [file.name for file in tmp_path.iterdir()] == ["map"]
    PersistentMap(tmp_path / "other", checkpoints=True).close()
    for flag in ("c", "w"):
        with PersistentMap(tmp_path / "other", flag, checkpoints=True) as made:
            assert made.durability == "checkpoint"


def test_what_is_refused_without_a_number_of_the_system_says_why(tmp_path):
    (tmp_path / "map.journal").write_bytes(b"a diary")
    with pytest.raises(FileExistsError, match="map.journal is in the way"):
        PersistentMap(tmp_path / "map", checkpoints=True)
    for call in (lambda: PersistentMap("a\0b"), lambda: CuckooTable("a\0b")):
        with pytest.raises(OSError, match="NUL byte"):
            call()


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


WITHOUT_MEMORY = """
import resource, sys
import fanread
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
try:
    fanread.CuckooTable.build(sys.argv[1], ((n.to_bytes(8, "big"), bytes(1000)) for n in range(1_000_000)))
except fanread.OutOfMemoryError as error:
    assert isinstance(error, MemoryError)
else:
    sys.exit("there was memory")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_table_for_which_there_is_no_memory_says_so(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY, tmp_path / "table"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
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


@pytest.fixture(params=["memory", "file"])
def empty(request, tmp_path):
    """An empty map of each kind."""
    if request.param == "memory":
        yield BytesMap()
    else:
        with PersistentMap(tmp_path / "map") as made:
            yield made


def numbered(count):
    return [(n.to_bytes(4, "big"), str(n).encode()) for n in range(count)]


def run(works):
    """Runs each call in a thread of its own, all at a time, while threads take turns often; returns what they return."""
    barrier = threading.Barrier(len(works))

    def one(work):
        barrier.wait()
        return work()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(works)) as pool:
            return list(pool.map(one, works))
    finally:
        sys.setswitchinterval(before)


def pop_all(made):
    popped = []
    try:
        while True:
            popped.append(made.popitem())
    except KeyError:
        return popped


def test_there_is_nothing_to_pop_or_to_clear_in_an_empty_map(empty):
    empty.clear()
    for _ in range(2):
        with pytest.raises(fanread.EmptyMapError, match="empty") as caught:
            empty.popitem()
        assert isinstance(caught.value, KeyError)
        empty[b"a"] = b"1"
        assert empty.popitem() == (b"a", b"1")
    empty.clear()
    assert len(empty) == 0


def test_pop_takes_one_default_as_dict_does(empty):
    empty[b"a"] = b"1"
    with pytest.raises(TypeError, match="pop expected at most 2 arguments, got 3"):
        empty.pop(b"a", None, None)
    assert empty.pop(b"a", None) == b"1"
    assert empty.pop(b"a", "none") == "none"


def test_clear_leaves_nothing_of_many_entries(empty):
    for _ in range(2):
        empty.insert_many(numbered(40_000))
        assert len(empty) == 40_000
        empty.clear()
        assert len(empty) == 0
        assert list(empty) == []
    empty[b"a"] = b"1"
    assert dict(empty) == {b"a": b"1"}


def test_clear_leaves_nothing_though_another_thread_deletes(empty):
    pairs = numbered(40_000)
    empty.insert_many(pairs)

    def delete(keys):
        return sum(empty.pop(key, None) is not None for key in keys)

    # Every second key, so that the others are left to clear.
    keys = [key for key, _ in pairs[::2]]
    *deleted, _ = run([lambda: delete(keys[::-1]), lambda: delete(keys), empty.clear])
    assert sum(deleted) <= len(keys)
    assert len(empty) == 0
    assert dict(empty) == {}


def test_clear_takes_all_that_was_there_though_another_thread_inserts(empty):
    old, new = numbered(20_000), [(b"new" + key, value) for key, value in numbered(20_000)]
    empty.insert_many(old)
    run([empty.clear, lambda: empty.insert_many(new)])
    left = dict(empty)
    assert len(left) == len(empty)
    assert left.items() <= dict(new).items()


def test_popitem_takes_many_entries_each_once(empty):
    pairs = numbered(20_000)
    empty.insert_many(pairs)
    popped = pop_all(empty)
    if isinstance(empty, BytesMap):
        assert popped == pairs[::-1]
    assert sorted(popped) == pairs
    assert len(empty) == 0


def test_popitem_gives_each_entry_to_one_thread(empty):
    pairs = numbered(20_000)
    more = [(b"more" + key, value) for key, value in pairs]
    empty.insert_many(pairs)
    *popped, _ = run([lambda: pop_all(empty)] * 4 + [lambda: empty.insert_many(more)])
    popped = [pair for some in popped for pair in some] + pop_all(empty)
    assert sorted(popped) == pairs + more
    assert len(empty) == 0


def test_popitem_and_pop_share_the_entries_with_clear(empty):
    pairs = numbered(20_000)
    empty.insert_many(pairs)

    def pop():
        found = ((key, empty.pop(key, None)) for key, _ in pairs)
        return [(key, value) for key, value in found if value is not None]

    def pop_items():
        found = pop_all(empty)
        # As nothing is inserted, nothing is there when popitem says so.
        assert list(empty) == []
        return found

    *popped, _ = run([pop_items, pop, pop_items, empty.clear])
    popped = [pair for some in popped for pair in some]
    assert len(popped) == len(set(popped))
    assert set(popped) <= set(pairs)
    assert len(empty) == 0


def test_setdefault_gives_all_threads_one_value(empty):
    keys = [key for key, _ in numbered(3_000)]

    def ask(mine):
        return [empty.setdefault(key, mine) for key in keys]

    given = run([lambda mine=mine: ask(mine) for mine in (b"a", b"b", b"c", b"d")])
    values = [empty[key] for key in keys]
    assert given == [values] * 4
    assert set(values) <= {b"a", b"b", b"c", b"d"}


def test_setdefault_and_batches_agree_in_memory():
    made = BytesMap()
    keys = [key for key, _ in numbered(40_000)]
    rounds = [keys[at : at + 100] for at in range(0, len(keys), 100)]
    barrier = threading.Barrier(2, timeout=60)

    def ask():
        asked = set()
        for some in rounds:
            barrier.wait()
            asked.update(made.setdefault(key, b"mine") for key in some)
        return asked

    def insert():
        for some in rounds:
            pairs = [(key, b"batch") for key in reversed(some)]
            barrier.wait()
            made.insert_many(pairs)

    asked, _ = run([ask, insert])
    assert asked <= {b"mine", b"batch"}
    # What insert_many has inserted setdefault does not replace.
    assert set(made.values()) == {b"batch"}


def test_insert_many_takes_the_whole_iterable_or_nothing(empty):
    empty[b"a"] = b"1"

    def failing():
        yield b"b", b"2"
        raise ZeroDivisionError

    for wrong, raised in (
        (failing(), ZeroDivisionError),
        ([(b"b", b"2"), (b"c", 3)], TypeError),
        ([(b"b", b"2"), (b"c",)], ValueError),
        ([(b"b", b"2"), 5], TypeError),
        (5, TypeError),
    ):
        with pytest.raises(raised):
            empty.insert_many(wrong)
        assert dict(empty) == {b"a": b"1"}
    empty.insert_many([])
    empty.insert_many((pair for pair in [(b"b", b"2"), (b"a", b"3"), (b"b", b"4")]))
    assert dict(empty) == {b"a": b"3", b"b": b"4"}


def test_a_key_that_is_too_long_for_a_batch(tmp_path):
    made = BytesMap({b"a": b"1"})
    with pytest.raises(fanread.KeyTooLongError, match="65536"):
        made.insert_many([(b"b", b"2"), (b"x" * 65_536, b""), (b"c", b"3")])
    assert made == {b"a": b"1"}
    with PersistentMap(tmp_path / "map") as stored:
        stored[b"a"] = b"1"
        # Those before it are in the map.
        with pytest.raises(fanread.KeyTooLongError):
            stored.insert_many([(b"b", b"2"), (b"x" * 2**24, b""), (b"c", b"3")])
        assert dict(stored) == {b"a": b"1", b"b": b"2"}


def test_pairs_may_come_from_the_map_and_close_it(tmp_path, empty):
    empty.insert_many(numbered(2_000))
    # All of them are read before one is inserted; the limit is there so that the test ends if that is not so.
    empty.insert_many((b"copy" + key, value) for key, value in itertools.islice(empty.items(), 5_000))
    assert len(empty) == 4_000
    with PersistentMap(tmp_path / "other") as stored:

        def closing():
            yield b"a", b"1"
            stored.close()

        with pytest.raises(fanread.ClosedError):
            stored.insert_many(closing())
    with PersistentMap(tmp_path / "other") as stored:
        assert len(stored) == 0


@pytest.mark.parametrize("call", ["insert_many", "clear"])
def test_other_threads_run_during_a_batch(empty, call):
    # Threads take no turns by themselves meanwhile: another one runs if the call lets it. It may come too late, so there are
    # many tries.
    pairs = numbered(20_000)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        for _ in range(100):
            if call == "clear":
                empty.insert_many(pairs)
            start, ran = threading.Lock(), []
            start.acquire()
            thread = threading.Thread(target=lambda: ran.append(start.acquire()))
            thread.start()
            start.release()
            if call == "clear":
                empty.clear()
            else:
                empty.insert_many(pairs)
            has_run = bool(ran)
            thread.join()
            if has_run:
                break
        assert has_run
    finally:
        sys.setswitchinterval(before)
    assert dict(empty) == ({} if call == "clear" else dict(pairs))


def test_who_comes_second_opens_the_file_that_the_first_has_made(tmp_path):
    threads = 4
    barrier = threading.Barrier(threads)
    outcomes = []

    def work(path):
        barrier.wait()
        try:
            with PersistentMap(path, "c") as made:
                made[b"key"] = b"value"
            outcomes.append("done")
        except BlockingIOError:
            outcomes.append("open already")
        except OSError as error:
            outcomes.append(error)

    for round in range(40):
        running = [threading.Thread(target=work, args=(tmp_path / f"map {round}",)) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    assert len(outcomes) == 40 * threads and set(outcomes) <= {"done", "open already"}, outcomes
    assert outcomes.count("done") >= 40
