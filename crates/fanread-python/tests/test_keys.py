"""Keys: every object comes back as an equal one, in Python's own order."""

import bisect
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanread import SortedMap

INTS = st.integers() | st.integers(-300, 300) | st.builds(
    lambda sign, bits, off: sign * (1 << bits) + off, st.sampled_from([-1, 1]), st.integers(0, 3000), st.integers(-2, 2)
)
# With lone surrogates, which UTF-8 has no bytes for.
TEXT = st.text(st.characters(exclude_categories=())) | st.text("ab\x00\x7f\x80\ud7ff\ud800\udfff\ue000\uffff\U0001f600")


def check(keys):
    made = SortedMap((key, key) for key in keys)
    assert list(made) == sorted(set(keys))
    assert list(reversed(made)) == sorted(set(keys), reverse=True)
    for key, value in made.items():
        assert key == value
        assert type(key) is type(keys[0])
        assert made[value] is value
        assert key in made


@given(st.lists(INTS, min_size=1))
def test_ints_of_any_size(keys):
    check(keys)


@given(st.lists(TEXT, min_size=1))
def test_text_with_surrogates(keys):
    check(keys)


@given(st.lists(st.binary(), min_size=1))
def test_bytes(keys):
    check(keys)


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1), st.floats(allow_nan=True))
def test_floats_are_looked_for_as_dict_does(keys, sought):
    model = dict.fromkeys(keys, 1)
    assert (sought in SortedMap(model)) == (sought in model)
    for key in keys:
        assert (float(key) in SortedMap(model)) == (float(key) in model)


def test_ints_at_the_edges_of_each_length():
    edges = sorted(
        {sign * ((1 << bits) + off) for bits in [*range(70), 895, 896, 897, 904, 8 * 255, 8 * 256, 500_000]
         for sign in (-1, 1) for off in (-1, 0, 1)}
    )
    made = SortedMap((edge, None) for edge in reversed(edges))
    assert list(made) == edges


# Ints of one window of 2^64 are kept as words: from -2^63 at first, then from 0. All others are kept as bytes.
FORMS = {
    "empty": [],
    "words from -2^63": [-(2**63), -7, 0, 5, 2**63 - 1],
    "words from 0": [0, 5, 2**63, 2**64 - 1],
    "bytes": [-(2**64), -(2**63) - 1, -7, 0, 5, 2**63, 2**64, 10**30],
}
EDGES = sorted({sign * (number + off) for number in (0, 6, 2**63, 2**64, 10**30) for sign in (-1, 1) for off in (-1, 0, 1)})


@pytest.mark.parametrize("keys", FORMS.values(), ids=FORMS)
def test_every_edge_of_every_form(keys):
    for made in (SortedMap((key, key) for key in keys), SortedMap.from_sorted((key, key) for key in keys)):
        for edge in EDGES:
            at, behind = bisect.bisect_left(keys, edge), bisect.bisect_right(keys, edge)
            assert (edge in made, made.get(edge)) == (edge in keys, edge if edge in keys else None)
            assert (made.bisect_left(edge), made.bisect_right(edge)) == (at, behind)
            pairs = [(key, key) for key in keys]
            assert made.ceiling(edge) == next(iter(pairs[at:]), None)
            assert made.higher(edge) == next(iter(pairs[behind:]), None)
            assert made.lower(edge) == next(reversed(pairs[:at]), None)
            assert made.floor(edge) == next(reversed(pairs[:behind]), None)
            assert made.pop(edge, None) == (edge if edge in keys else None)
            if edge in keys:
                made[edge] = edge
        for low, high in itertools.product(EDGES, EDGES):
            inside = keys[bisect.bisect_left(keys, low) : bisect.bisect_right(keys, high)]
            assert list(made.irange(low, high)) == inside
            assert list(made.irange(low, high, reverse=True)) == inside[::-1]
            assert list(made.irange_values(low, high, (False, False))) == [key for key in inside if key not in (low, high)]


@given(st.permutations([key for keys in FORMS.values() for key in keys]))
def test_a_map_takes_another_form_and_keeps_all(keys):
    made, model = SortedMap(), {}
    for key in keys:
        made[key] = model[key] = str(key)
        assert list(made.items()) == sorted(model.items())
    for key in keys[::2]:
        made.pop(key, None)
        model.pop(key, None)
        assert list(made.items()) == sorted(model.items())
    made.clear()
    made[7] = 8
    assert list(made.items()) == [(7, 8)]


def test_subclasses_of_key_types_are_what_they_equal():
    class Text(str):
        def encode(self, *args):
            raise AssertionError

    class Number(int):
        def __neg__(self):
            raise AssertionError

        def bit_length(self):
            return 3

    words = SortedMap({Text("a\ud800"): 1, Text("b"): 2})
    assert [type(key) for key in words] == [str, str]
    assert words["a\ud800"] == 1
    numbers = SortedMap({Number(-(2**80)): 1, Number(7): 2})
    assert numbers == {-(2**80): 1, 7: 2}
    assert [type(key) for key in numbers] == [int, int]
