"""SortedMap beside sortedcontainers.SortedDict, method by method: the same answers and the same exceptions."""

import inspect
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from fanread import SortedMap

KEYS = st.integers(-50, 50)
ENTRIES = st.dictionaries(KEYS, st.integers(0, 5), max_size=40)
RANKS = st.integers(-60, 60)
LIMITS = st.none() | KEYS


def outcome(call):
    """What a call returns, made comparable, or which exception it raises."""
    try:
        answer = call()
    except Exception as error:
        kind = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
        return kind, str(error) if kind in (KeyError, IndexError, ValueError) else None
    return list(answer) if hasattr(answer, "__next__") else answer


def agree(entries, call):
    """Checks that a call does the same to both maps, and returns its outcome."""
    ours, theirs = SortedMap(entries), SortedDict(entries)
    answer = outcome(lambda: call(ours))
    assert answer == outcome(lambda: call(theirs))
    assert list(ours.items()) == list(theirs.items())
    assert repr(ours).replace("SortedMap", "SortedDict") == repr(theirs)
    return answer


def test_every_public_method_of_sorted_dict_is_there():
    theirs = {name for name in dir(SortedDict()) if not name.startswith("_")}
    assert theirs - set(dir(SortedMap())) == {"iloc"}  # deprecated there since version 2


@given(ENTRIES, KEYS, st.integers())
def test_point_calls(entries, key, value):
    agree(entries, lambda m: m[key])
    agree(entries, lambda m: key in m)
    agree(entries, lambda m: m.get(key))
    agree(entries, lambda m: m.get(key, value))
    agree(entries, lambda m: m.setdefault(key))
    agree(entries, lambda m: m.setdefault(key, value))
    agree(entries, lambda m: m.pop(key))
    agree(entries, lambda m: m.pop(key, value))
    agree(entries, lambda m: m.pop(key, default=value))
    agree(entries, lambda m: m.__setitem__(key, value))
    agree(entries, lambda m: m.__delitem__(key))
    agree(entries, lambda m: m.count(key) if hasattr(m, "count") else key in m)


@given(ENTRIES, RANKS, RANKS, st.booleans())
def test_ranks(entries, rank, other, reverse):
    agree(entries, lambda m: m.peekitem(rank))
    agree(entries, lambda m: m.peekitem())
    agree(entries, lambda m: m.popitem(rank) if m else None)
    agree(entries, lambda m: m.popitem())
    agree(entries, lambda m: m.bisect(rank))
    agree(entries, lambda m: m.bisect_left(rank))
    agree(entries, lambda m: m.bisect_right(rank))
    agree(entries, lambda m: m.index(rank))
    agree(entries, lambda m: m.index(rank, other) if m else None)
    agree(entries, lambda m: m.index(rank, 2, other) if m else None)
    agree(entries, lambda m: m.islice(rank, other, reverse))
    agree(entries, lambda m: m.islice(stop=other))
    agree(entries, lambda m: m.islice(rank))


@given(ENTRIES, LIMITS, LIMITS, st.booleans(), st.booleans(), st.booleans())
def test_ranges(entries, low, high, from_low, to_high, reverse):
    agree(entries, lambda m: m.irange(low, high))
    agree(entries, lambda m: m.irange(low, high, (from_low, to_high), reverse))
    agree(entries, lambda m: m.irange(minimum=low, maximum=high, inclusive=(from_low, to_high), reverse=reverse))
    ours, theirs = SortedMap(entries), SortedDict(entries)
    keys = list(theirs.irange(low, high, (from_low, to_high), reverse))
    assert list(ours.irange_items(low, high, (from_low, to_high), reverse)) == [(key, entries[key]) for key in keys]
    assert list(ours.irange_values(low, high, (from_low, to_high), reverse)) == [entries[key] for key in keys]


@given(ENTRIES, RANKS, st.none() | RANKS, st.none() | RANKS, st.none() | st.integers(-5, 5).filter(bool))
def test_views(entries, rank, start, stop, step):
    for name in ("keys", "values", "items"):
        def view(m, name=name):
            return getattr(m, name)()

        agree(entries, lambda m: list(view(m)))
        agree(entries, lambda m: list(reversed(view(m))))
        agree(entries, lambda m: len(view(m)))
        agree(entries, lambda m: view(m)[rank])
        agree(entries, lambda m: view(m)[start:stop:step])
        agree(entries, lambda m: list(view(m)).count(rank) == view(m).count(rank))
        agree(entries, lambda m: rank in view(m))
        agree(entries, lambda m: (rank, entries.get(rank)) in view(m))

        def drop(m, at):
            made = view(m)
            del made[at]

        agree(entries, lambda m: drop(m, rank) if m else None)
        agree(entries, lambda m: drop(m, slice(start, stop, step)))
    answers = [outcome(lambda m=m: m(entries).keys().index(rank)) for m in (SortedMap, SortedDict)]
    assert answers[0] == answers[1] or answers[0][0] is answers[1][0] is ValueError  # ours says what is missing
    agree(entries, lambda m: m.values().index(rank))
    agree(entries, lambda m: m.items().index((rank, entries.get(rank))))


@given(ENTRIES, ENTRIES)
def test_sets_of_keys_and_items(entries, more):
    for name in ("keys", "items"):
        def both(m, other, name=name):
            return getattr(m, name)(), getattr(other, name)()

        for other in (more, SortedMap(more), SortedDict(more)):
            agree(entries, lambda m: set(both(m, other)[0] & both(m, other)[1]))
            agree(entries, lambda m: set(both(m, other)[0] | both(m, other)[1]))
            agree(entries, lambda m: set(both(m, other)[0] - both(m, other)[1]))
            agree(entries, lambda m: set(both(m, other)[0] ^ both(m, other)[1]))
            agree(entries, lambda m: both(m, other)[0] <= both(m, other)[1])
            agree(entries, lambda m: both(m, other)[0] == both(m, other)[1])
            agree(entries, lambda m: both(m, other)[0].isdisjoint(both(m, other)[1]))


@given(ENTRIES, ENTRIES)
def test_whole_maps(entries, more):
    agree(entries, lambda m: m.update(more))
    agree(entries, lambda m: m.update(list(more.items())))
    agree(entries, lambda m: m.update(iter(more.items())))
    agree(entries, lambda m: list((m | more).items()))
    agree(entries, lambda m: list((more | m).items()))
    agree(entries, lambda m: m.__ior__(more) is m)
    agree(entries, lambda m: list(m.copy().items()))
    agree(entries, lambda m: m.clear())
    agree(entries, lambda m: list(m.fromkeys(more, 7).items()))
    agree(entries, lambda m: m == more)
    agree(entries, lambda m: more == m)
    agree(entries, lambda m: m != more)
    agree(entries, lambda m: m == SortedDict(more))
    agree(entries, lambda m: m == 5)
    agree(entries, lambda m: (m | [(1, 2)]))
    agree(entries, lambda m: bool(m))
    agree(entries, lambda m: list(reversed(m)))
    agree(entries, lambda m: m.key)


@pytest.mark.parametrize("arguments", [(None,), ({},), (5,), ([5],), ({}, {}), (None, {}, {})])
def test_what_the_constructor_refuses(arguments):
    def kind(made):
        return outcome(lambda: list(made(*arguments).items()))

    ours, theirs = kind(SortedMap), kind(SortedDict)
    assert ours == theirs


@pytest.mark.parametrize("index", [10**30, -(10**30), 2**63, 2, -3])
def test_an_index_that_is_too_large_is_out_of_range(index):
    for made in (SortedMap({1: 1, 2: 2}), SortedDict({1: 1, 2: 2})):
        for call in (made.peekitem, made.popitem, made.keys().__getitem__, made.items().__getitem__, made.values().__delitem__):
            with pytest.raises(IndexError):
                call(index)
        assert len(made) == 2


def test_text_and_bytes_are_ordered_alike():
    random.seed(5)
    for alphabet in ("ab\x00\xff\u0100\ud800\U0001f600", b"\x00\x01\x7f\x80\xff"):
        keys = [alphabet[:0].join(alphabet[i : i + 1] for i in random.choices(range(len(alphabet)), k=n % 6))
                for n in range(500)]
        ours, theirs = SortedMap.fromkeys(keys), SortedDict.fromkeys(keys)
        assert list(ours) == list(theirs)
        for key in keys[:100]:
            assert ours.bisect_left(key) == theirs.bisect_left(key)
            assert list(ours.irange(key, None)) == list(theirs.irange(key, None))


def test_signatures_have_the_same_names():
    for name in ("pop", "setdefault", "popitem", "peekitem", "islice", "irange", "index", "fromkeys"):
        theirs = inspect.signature(getattr(SortedDict(), name)).parameters
        ours = inspect.signature(getattr(SortedMap(), name)).parameters
        assert list(ours) == list(theirs), name
