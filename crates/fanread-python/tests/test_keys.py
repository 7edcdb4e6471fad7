"""Keys: every object comes back as an equal one, in Python's own order."""

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
