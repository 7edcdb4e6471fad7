"""SortedMap as a mapping: CPython's own tests, and what these leave out."""

import copy
import pickle
import sys
import threading
from collections.abc import MutableMapping
from decimal import Decimal
from fractions import Fraction
from test import mapping_tests

import numpy
import pytest

import fanread
from fanread import SortedMap


class TestMappingProtocolOfCPython(mapping_tests.BasicTestMappingProtocol):
    type2test = SortedMap


def test_it_is_a_mutable_mapping_but_no_dict():
    assert isinstance(SortedMap(), MutableMapping)
    assert not isinstance(SortedMap(), dict)
    match SortedMap(a=1):
        case {"a": one}:
            assert one == 1
        case _:
            pytest.fail("not matched as a mapping")


def test_the_constructor_takes_all_forms_of_dict():
    expected = {"a": 1, "b": 2}
    for made in (
        SortedMap(expected),
        SortedMap(None, expected),
        SortedMap(None),
        SortedMap(expected.items()),
        SortedMap([["a", 1], "b2"]),
        SortedMap(a=1, b=2),
        SortedMap({"a": 5}, a=1, b=2),
        SortedMap(SortedMap(expected)),
    ):
        assert made in (expected, {}, {"a": 1, "b": "2"})
    with pytest.raises(TypeError, match="at most 1 argument"):
        SortedMap({}, {})
    with pytest.raises(TypeError, match="key function"):
        SortedMap(len, expected)
    with pytest.raises(TypeError, match="element #1 to a sequence"):
        SortedMap([("a", 1), 2])
    with pytest.raises(ValueError, match="element #1 has length 3"):
        SortedMap([("a", 1), (1, 2, 3)])


def test_another_kind_of_key_is_refused_where_it_would_be_stored_or_ordered():
    numbers = SortedMap({1: "one"})
    for call in (
        lambda: numbers.__setitem__("a", 1),
        lambda: numbers.__setitem__(b"a", 1),
        lambda: numbers.__setitem__(1.0, 1),
        lambda: numbers.setdefault("a"),
        lambda: numbers.update(a=1),
        lambda: numbers.bisect_left("a"),
        lambda: numbers.floor("a"),
        lambda: list(numbers.irange("a")),
    ):
        with pytest.raises(fanread.KeyKindError, match="are int, this one is (str|bytes|float)") as caught:
            call()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, fanread.FanreadError)
    assert numbers == {1: "one"}
    with pytest.raises(TypeError, match="bytes, str or int, all of one kind; this one is tuple"):
        SortedMap()[1, 2] = 3


def test_another_kind_of_key_is_not_found_as_in_dict():
    numbers = SortedMap({1: "one"})
    assert "1" not in numbers
    assert numbers.get("1") is None
    assert numbers.pop(b"1", 5) == 5
    with pytest.raises(KeyError):
        numbers["1"]
    with pytest.raises(KeyError):
        del numbers[None]
    for call in (lambda: [] in numbers, lambda: numbers.get({}), lambda: numbers[[]]):
        with pytest.raises(TypeError, match="unhashable"):
            call()
    with pytest.raises(TypeError, match="unhashable"):
        SortedMap().get([])


def test_what_equals_an_int_finds_it():
    numbers = SortedMap({1: "one", 10**30: "many"})
    assert numbers[True] == numbers[1.0] == "one"
    assert numbers[1e30 if int(1e30) == 10**30 else 10**30] == "many"
    assert 1.5 not in numbers
    assert float("inf") not in numbers
    assert float("nan") not in numbers
    numbers[False] = "zero"
    assert list(numbers) == [0, 1, 10**30]
    assert type(numbers.peekitem(0)[0]) is int


def test_numbers_of_other_types_find_what_they_equal():
    entries = {5: "five", -1: "less", 2**63: "large"}
    numbers = SortedMap(entries)
    for key in (numpy.int64(5), numpy.uint8(5), numpy.int8(-1), numpy.uint64(2**63), numpy.float32(5), Fraction(5), Decimal(2**63)):
        assert key in numbers
        assert numbers[key] == numbers.get(key) == entries[key]
        assert numbers.index(key) == numbers.bisect_left(int(key))
        assert numbers.setdefault(key, 0) == entries[key]
    for stranger in (numpy.int64(6), numpy.float32(5.5), numpy.float32("inf"), Decimal("5.5"), Fraction(11, 2), 5 + 1j):
        assert stranger not in numbers
    assert numbers.pop(numpy.int64(5)) == "five"
    del numbers[numpy.int16(-1)]
    assert list(numbers) == [2**63]
    with pytest.raises(fanread.KeyKindError, match="this one is int64"):
        numbers[numpy.int64(1)] = 0


def test_what_only_converts_to_an_int_does_not_find_it():
    class Number:
        hashed = 5

        def __int__(self):
            return 5

        def __hash__(self):
            return self.hashed

    class Equal(Number):
        def __eq__(self, other):
            return other == 5

        __hash__ = Number.__hash__

    class Elsewhere(Equal):
        hashed = 6
        __hash__ = Number.__hash__

    for made in (SortedMap({5: 1}), {5: 1}):
        assert Number() not in made
        assert Equal() in made
        assert Elsewhere() not in made


def test_looking_for_a_key_may_change_the_kind_of_all():
    class Number:
        def __int__(self):
            made.clear()
            made[b"\x81\x05"] = "another"
            return 5

        def __hash__(self):
            return 5

        def __eq__(self, other):
            return True

    for call in (lambda: made.get(Number()), lambda: made.pop(Number(), None)):
        made = SortedMap({5: "five"})
        assert call() is None
        assert made == {b"\x81\x05": "another"}


def test_the_kind_can_be_given():
    words = SortedMap.of(str, {"b": 1}, a=2)
    assert words.key_type is str
    with pytest.raises(TypeError):
        words[1] = 2
    words.clear()
    assert words.key_type is str
    with pytest.raises(TypeError):
        words[1] = 2
    with pytest.raises(TypeError):
        SortedMap.of(float)
    with pytest.raises(TypeError):
        SortedMap.of(int, {"a": 1})
    found = SortedMap(a=1)
    found.clear()
    found[1] = 2
    assert found.key_type is int


def test_popitem_of_an_empty_map_fails_as_sorted_dict_and_as_dict_do():
    for call in (SortedMap().popitem, lambda: SortedMap().popitem(0)):
        with pytest.raises(fanread.EmptyMapError, match="is empty") as caught:
            call()
        assert isinstance(caught.value, KeyError)  # SortedDict, with an index or without
        assert isinstance(caught.value, TypeError)  # dict, which takes none


def test_missing_is_asked_in_a_subclass():
    class Default(SortedMap):
        def __missing__(self, key):
            self[key] = value = [key]
            return value

    made = Default(a=1)
    assert made["b"] == ["b"]
    assert made.get("c") is None
    assert "c" not in made
    assert made == {"a": 1, "b": ["b"]}


def test_a_subclass_has_attributes_and_its_own_name():
    class Named(SortedMap):
        pass

    made = Named(a=1)
    made.note = "kept"
    assert repr(made) == "Named({'a': 1})"
    assert type(made.copy()) is Named
    assert type(made | {"b": 2}) is Named


class Pickled(SortedMap):
    pass


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("keys", [["b", "a", "\ud800"], [b"", b"x"], [3, -(10**40), 2**64]])
def test_pickling_keeps_entries_kind_and_attributes(keys, protocol):
    made = Pickled.of(type(keys[0]), zip(keys, range(10)))
    made.note = "kept"
    back = pickle.loads(pickle.dumps(made, protocol))
    assert type(back) is Pickled
    assert back == made
    assert list(back) == sorted(keys)
    assert back.note == "kept"
    with pytest.raises(TypeError):
        back[1.5] = 0
    back.clear()
    assert back.key_type is type(keys[0])


def test_a_map_that_holds_itself_is_copied_and_shown():
    made = SortedMap(a=[1])
    made["me"] = made
    assert repr(made) == "SortedMap({'a': [1], 'me': ...})"
    for back in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert back["me"] is back
        assert back["a"] == [1]
        assert back["a"] is not made["a"]
    assert copy.copy(made)["a"] is made["a"]


def test_iterators_raise_when_the_size_has_changed():
    made = SortedMap((n, n) for n in range(1000))
    for view in (made, made.keys(), made.values(), made.items()):
        for begin in (iter, reversed):
            walk = begin(view)
            next(walk)
            made[-1] = 0
            for _ in range(2):
                with pytest.raises(RuntimeError, match="changed size"):
                    next(walk)
            del made[-1]
    walk = iter(made)
    made.clear()
    with pytest.raises(RuntimeError):
        next(walk)


def test_iterators_see_values_that_are_replaced_meanwhile():
    made = SortedMap((n, n) for n in range(1000))
    for key, value in made.items():
        assert value == key
        if key + 1 in made:
            made[key + 1] = key + 1
        made[key] = None
    assert set(made.values()) == {None}
    walk = iter(made.values())
    next(walk)
    for key in made:
        made[key] = key
    assert list(walk) == list(range(1, 1000))


def test_a_walk_that_is_written_to_at_each_step_copies_few_entries_each_time():
    value = object()
    made = SortedMap((n, value) for n in range(5000))
    most = 0
    for key, _ in made.items():
        made[key] = value
        # The walk counts a reference for each entry that it has copied.
        most = max(most, sys.getrefcount(value) - len(made))
    # It was more than 500.
    assert most < 64


def test_an_iterator_that_has_ended_stays_so():
    made = SortedMap(a=1)
    walk = iter(made)
    assert list(walk) == ["a"]
    made["b"] = 2
    assert list(walk) == []


def test_keys_too_long_are_refused_and_change_nothing():
    made = SortedMap(a=1)
    long = "x" * 65_536
    with pytest.raises(fanread.KeyTooLongError, match="65536 bytes") as caught:
        made[long] = 2
    assert isinstance(caught.value, ValueError)
    assert long not in made
    made[long[1:]] = 3
    assert made.pop(long[1:]) == 3
    assert made == {"a": 1}
    numbers = SortedMap({1: 1})
    with pytest.raises(fanread.KeyTooLongError):
        numbers[1 << 600_000] = 1
    assert (1 << 600_000) not in numbers


def test_neighbours():
    made = SortedMap({10: "a", 20: "b"})
    assert made.floor(9) is None
    assert made.floor(10) == made.floor(19) == (10, "a")
    assert made.lower(10) is None
    assert made.lower(20) == (10, "a")
    assert made.ceiling(20) == made.ceiling(11) == made.higher(10) == (20, "b")
    assert made.ceiling(21) is None
    assert made.higher(20) is None
    assert SortedMap().floor(1) is None


def test_prefixes():
    words = SortedMap((word, len(word)) for word in ["", "a", "ab", "ab\U0010ffff", "ac", "b", "ab\ud800"])
    assert list(words.prefix("ab")) == ["ab", "ab\ud800", "ab\U0010ffff"]
    assert list(words.prefix("ab", reverse=True)) == ["ab\U0010ffff", "ab\ud800", "ab"]
    assert dict(words.prefix_items("a")) == {k: len(k) for k in words if k.startswith("a")}
    assert list(words.prefix("")) == list(words)
    raw = SortedMap({b"\xff": 1, b"\xff\xff": 2, b"\xfe": 3})
    assert list(raw.prefix(b"\xff")) == [b"\xff", b"\xff\xff"]
    with pytest.raises(TypeError):
        SortedMap({1: 1}).prefix(1)
    with pytest.raises(TypeError):
        words.prefix(b"a")


def test_from_sorted_takes_ascending_keys_only():
    value = object()
    start = sys.getrefcount(value)
    pairs = [(f"{n:06d}", value) for n in range(20_000)]
    made = SortedMap.from_sorted(pairs)
    assert list(made.items()) == pairs
    assert made == dict(pairs)
    del made["000500"]
    made["a"] = value
    assert sys.getrefcount(value) - start == 40_000
    made.clear()
    for wrong in ([("b", value), ("a", value)], [("a", value), ("a", value)], [("a", value), (1, value)], [("a", value), 5]):
        with pytest.raises((fanread.NotSortedError, TypeError)):
            SortedMap.from_sorted(wrong)
    with pytest.raises(fanread.NotSortedError, match="entry 1 is not above"):
        SortedMap.from_sorted([(2, value), (-(2**70), value)])
    with pytest.raises(fanread.KeyTooLongError):
        SortedMap.from_sorted([("a", value), ("b" * 70_000, value)])
    del pairs, wrong
    assert sys.getrefcount(value) == start
    assert SortedMap.from_sorted([]) == SortedMap()
    with pytest.raises(RuntimeError, match="entries already"):
        SortedMap(a=1)._load_sorted([("b", 2)])


def test_sizes_are_told_in_bytes():
    made = SortedMap()
    assert made.nbytes == 0
    small = sys.getsizeof(made)
    made.update((n, None) for n in range(10_000))
    assert made.nbytes > 10_000 * 16
    assert sys.getsizeof(made) - small >= made.nbytes
    made.clear()
    assert made.nbytes == 0


def test_a_panic_inside_is_an_exception():
    with pytest.raises(fanread.FanreadError, match="gave up: wombat"):
        fanread._fanread._panic("wombat")
    # pyo3's own border stops the others; what it raises is no Exception.
    with pytest.raises(BaseException, match="kiwi") as caught:
        fanread._fanread._panic("kiwi", caught=False)
    assert type(caught.value).__name__ == "PanicException"


def test_threads_share_a_map():
    made = SortedMap.of(int)
    barrier = threading.Barrier(4)

    def work(mine):
        barrier.wait()
        for n in range(mine, 20_000, 4):
            made[n] = [n]
            assert made[n] == [n]
            if n % 3 == 0:
                del made[n]
            try:
                sum(1 for _ in made.irange(n - 50, n))
            except RuntimeError:
                pass

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(made.items()) == [(n, [n]) for n in range(20_000) if n % 3]
