"""U64Map against dict and sorted list, and what it says of arrays that it does not take."""

import bisect
import math
import pickle
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import fanread
from fanread import U64Map

KINDS = {
    "u64": (np.dtype("uint64"), [0, 1, 2, 2**63, 2**64 - 1]),
    "i64": (np.dtype("int64"), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "f64": (np.dtype("float64"), [-math.inf, -1.5, -5e-324, 0.0, 5e-324, 1.0, math.inf]),
    "datetime64[ns]": (
        np.dtype("datetime64[ns]"),
        [np.datetime64(n, "ns") for n in (-(2**63) + 1, -1, 0, 1, 1_700_000_000_000_000_000)],
    ),
}


def machine(kind):
    dtype, edges = KINDS[kind]
    key = st.sampled_from(edges) | st.integers(0, 40).map(lambda n: dtype.type(n, *([kind[11:-1]] if "[" in kind else [])))
    keys = st.lists(key, max_size=30).map(lambda keys: np.array(keys, dtype=dtype))
    value = st.integers(0, 2**64 - 1)

    class Model(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.map = U64Map(kind)
            self.model = {}

        @rule(keys=keys, value=value)
        def insert_many(self, keys, value):
            values = np.arange(len(keys), dtype=np.uint64) ^ np.uint64(value)
            self.map.insert_many(keys, values)
            self.model.update(zip(keys.tolist(), values.tolist()))

        @rule(key=key, value=value)
        def insert(self, key, value):
            self.map[key] = value
            self.model[np.array([key], dtype).tolist()[0]] = value

        @rule(keys=keys)
        def remove_many(self, keys):
            assert self.map.remove_many(keys) == sum(self.model.pop(key, None) is not None for key in set(keys.tolist()))

        @rule(key=key)
        def remove(self, key):
            plain = np.array([key], dtype).tolist()[0]
            assert self.map.pop(key, None) == self.model.pop(plain, None)

        @rule(keys=keys, default=value)
        def look_up(self, keys, default):
            expected = [self.model.get(key, default) for key in keys.tolist()]
            out = np.empty(len(keys), np.uint64)
            assert self.map.get_many(keys, default=default, out=out) is out
            assert out.tolist() == self.map.get_many(keys, default).tolist() == expected
            there = [key in self.model for key in keys.tolist()]
            assert self.map.contains_many(keys).tolist() == there
            if all(there):
                assert self.map.get_many(keys).tolist() == expected
            else:
                with pytest.raises(KeyError) as caught:
                    self.map.get_many(keys)
                assert caught.value.args[0] == keys[there.index(False)]
            for key, value in zip(keys, expected):
                assert self.map.get(key, default) == value
                assert (key in self.map) == (np.array([key], dtype).tolist()[0] in self.model)

        @rule(low=st.none() | key, high=st.none() | key)
        def range(self, low, high):
            def plain(key):
                return None if key is None else np.array([key], dtype).tolist()[0]

            keys = sorted(self.model)
            start = 0 if low is None else bisect.bisect_left(keys, plain(low))
            stop = len(keys) if high is None else bisect.bisect_left(keys, plain(high))
            found, values = self.map.range_arrays(low, high)
            assert found.dtype == dtype
            assert found.tolist() == keys[start:stop]
            assert values.tolist() == [self.model[key] for key in keys[start:stop]]

        @rule(key=key)
        def neighbours(self, key):
            keys = sorted(self.model)
            plain = np.array([key], dtype).tolist()[0]
            at = bisect.bisect_right(keys, plain)
            assert self.same(self.map.floor(key), keys[at - 1 : at])
            at = bisect.bisect_left(keys, plain)
            assert self.same(self.map.ceiling(key), keys[at : at + 1])
            assert self.same(self.map.first(), keys[:1])
            assert self.same(self.map.last(), keys[-1:])

        def same(self, pair, keys):
            if pair is None:
                return not keys
            return [np.array([pair[0]], dtype).tolist()[0], pair[1]] == [keys[0], self.model[keys[0]]]

        @precondition(lambda self: self.model)
        @rule()
        def rebuild(self):
            keys, values = self.map.to_numpy()
            self.map = U64Map.from_sorted(keys, values, kind=kind)

        @rule()
        def pickled(self):
            self.map = pickle.loads(pickle.dumps(self.map))

        @rule()
        def clear(self):
            self.map.clear()
            self.model.clear()

        @invariant()
        def is_the_model(self):
            assert len(self.map) == len(self.model)
            keys, values = self.map.to_numpy()
            assert keys.tolist() == sorted(self.model)
            assert list(self.map) == [key for key, _ in self.map.items()]
            assert np.array(list(self.map), dtype).tolist() == keys.tolist()
            assert dict(zip(keys.tolist(), values.tolist())) == self.model

    return Model.TestCase


TestUnsigned = machine("u64")
TestSigned = machine("i64")
TestFloat = machine("f64")
TestTime = machine("datetime64[ns]")


def test_arrays_of_another_dtype_or_shape_say_what_is_wanted():
    made = U64Map("i64")
    good = np.arange(5)
    made.insert_many(good, good.astype(np.uint64))
    ones = np.ones(5, np.uint64)
    readonly = ones.copy()
    readonly.flags.writeable = False
    for call, text in (
        (lambda: made.get_many([1, 2]), r"keys: wanted an array of shape \(n,\) and dtype int64.*this is a list"),
        (lambda: made.get_many(good.astype(np.uint64)), "and dtype int64.*this has shape .5. and dtype uint64"),
        (lambda: made.get_many(good.astype(np.int32)), "dtype int32"),
        (lambda: made.get_many(good.astype(">i8")), "dtype >i8"),
        (lambda: made.get_many(good.reshape(5, 1)), r"shape \[5, 1\]"),
        (lambda: made.get_many(np.arange(10)[::2]), "this has gaps"),
        (lambda: made.get_many(np.frombuffer(b"x" * 41, np.int64, 5, 1)), "aligned; this is not"),
        (lambda: made.get_many(good, out=good), "out: wanted.*dtype uint64"),
        (lambda: made.get_many(good, out=readonly), "writeable; this is not"),
        (lambda: made.contains_many(good, out=ones), "out: wanted.*dtype bool"),
        (lambda: made.insert_many(good, good), "values: wanted.*dtype uint64"),
        (lambda: made.remove_many(3), "this is a int"),
        (lambda: U64Map("f4"), "wanted a dtype of 8 bytes.*this is float32"),
        (lambda: U64Map("c8"), "wanted a dtype of 8 bytes"),
        (lambda: U64Map(values=">u8"), "native order"),
    ):
        with pytest.raises(fanread.ArrayError, match=text) as caught:
            call()
        assert isinstance(caught.value, TypeError)
    with pytest.raises(ValueError, match="5 keys, but 3 places"):
        made.get_many(good, out=np.empty(3, np.uint64))
    with pytest.raises(ValueError, match="5 keys, but 3 places"):
        made.insert_many(good, ones[:3])
    assert len(made) == 5


def test_a_wrong_kind_of_scalar_is_not_there_and_cannot_be_stored():
    made = U64Map()
    made[1] = 2
    for stranger in ("a", -1, 2**64, 1.5, None, b""):
        assert stranger not in made
        assert made.get(stranger) is None
        with pytest.raises((TypeError, OverflowError, ValueError)):
            made[stranger] = 0
    with pytest.raises(TypeError, match="unhashable"):
        [] in made
    with pytest.raises(KeyError):
        made["a"]
    with pytest.raises(KeyError):
        del made[5]
    assert made.pop(5, "none") == "none"
    with pytest.raises(TypeError, match="pop expected at most 2 arguments, got 3"):
        made.pop(1, 5, 6)
    assert made.pop(1) == 2


def test_a_number_between_two_keys_is_neither():
    floats = U64Map("f64")
    floats[2.0**53] = 1
    assert floats[2**53] == 1
    times = U64Map("datetime64[s]", "timedelta64[s]")
    start, half = np.datetime64("2020-01-01", "s"), np.datetime64("2020-01-01T00:00:00.500")
    times[start] = np.timedelta64(1, "m")
    assert times[np.datetime64("2020-01-01T00:00:00.000")] == times[np.datetime64("2020-01-01")] == times["2020-01-01"]
    times[np.datetime64("NaT")] = 5
    assert times[np.datetime64("NaT")] == 5
    for made, stranger in ((floats, 2**53 + 1), (times, half), (times, np.timedelta64(5, "s")), (times, None)):
        assert stranger not in made
        assert made.get(stranger) is None
        with pytest.raises((TypeError, ValueError)):
            made[stranger] = 1
        with pytest.raises((TypeError, ValueError)):
            made.ceiling(stranger)
    with pytest.raises(ValueError, match="is no timedelta64"):
        times[start] = np.timedelta64(1500, "ms")
    assert (len(floats), len(times), times[start]) == (1, 2, np.timedelta64(60, "s"))


def test_answers_may_take_the_place_of_keys():
    keys = np.arange(1000, dtype=np.uint64)
    made = U64Map.from_sorted(keys, keys[::-1].copy())
    there = keys.copy()
    assert made.get_many(there, out=there) is there
    assert (there == keys[::-1]).all()
    absent = np.array([3, 70_000, 80_000], np.uint64)
    with pytest.raises(KeyError) as caught:
        made.get_many(absent, out=absent)
    assert caught.value.args == (70_000,)
    # Further on there are keys that were not looked up yet.
    both = np.arange(1001, dtype=np.uint64)
    for part, out in ((both[:-1], both[1:]), (both[1:], both[:-1])):
        with pytest.raises(fanread.ArrayError, match="out: wanted an array apart from keys"):
            made.get_many(part, default=0, out=out)
    assert made.get_many(both[:500], out=both[500:1000]).tolist() == list(range(999, 499, -1))
    assert made.get_many(both[:0], out=both[:0]).tolist() == []


def test_from_sorted_wants_ascending_keys():
    values = np.zeros(3, np.uint64)
    for keys in ([1, 1, 2], [1, 3, 2]):
        with pytest.raises(fanread.NotSortedError, match="entry [12] is not above"):
            U64Map.from_sorted(np.array(keys, np.uint64), values)
    assert len(U64Map.from_sorted(values[:0], values[:0])) == 0
    # Numbers with a sign are ascending by what they are, not by their bits.
    assert len(U64Map.from_sorted(np.array([-1, 0, 1]), values, kind="i64")) == 3


def test_floats_have_one_zero_and_keep_their_nans():
    made = U64Map("f64", "f64")
    nans = [struct.unpack("d", struct.pack("Q", bits))[0] for bits in (0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000)]
    keys = np.array([-0.0, *nans, math.inf, -math.inf])
    made.insert_many(keys, np.array([-0.0, 1.5, 2.5, math.nan, 3.5]))
    assert made[0.0] == 0.0
    assert math.copysign(1, made[0.0]) == -1
    assert made[nans[0]] == 1.5
    assert made[nans[1]] == 2.5
    ordered, _ = made.to_numpy()
    assert np.isnan(ordered[[0, -1]]).all()
    assert ordered[1:-1].tolist() == [-math.inf, 0.0, math.inf]
    assert math.isnan(made[math.inf])


def test_times_come_back_as_times():
    days = np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]").astype("datetime64[ns]")
    made = U64Map("datetime64[ns]", "timedelta64[ns]")
    made.insert_many(days, days - days[0])
    assert made[np.datetime64("2024-02-01", "D")] == np.timedelta64(31, "D")
    found, _ = made.range_arrays(np.datetime64("2024-01-31"), np.datetime64("2024-02-02"))
    assert found.tolist() == days[30:32].tolist()
    assert made.first()[0] == days[0]
    assert list(made) == list(days)
    for unit in ("D", "s", "us", "ns"):
        made = U64Map(f"datetime64[{unit}]")
        made[days[0]] = 1
        assert [type(key) for key in made] == [np.datetime64]
        assert [made[key] for key in made] == [1]
    with pytest.raises(TypeError, match=r"datetime64\[ns\]"):
        made.get_many(days.astype("datetime64[D]"))


def test_a_default_that_resizes_the_keys_does_no_harm():
    keys = np.arange(10_000_000, dtype=np.uint64)

    class Default:
        def __index__(self):
            keys.resize((1,), refcheck=False)
            return 7

    assert U64Map().get_many(keys, Default()).tolist() == [7]


def test_sizes_are_told_in_bytes():
    made = U64Map()
    small = sys.getsizeof(made)
    made.insert_many(np.arange(100_000, dtype=np.uint64), np.arange(100_000, dtype=np.uint64))
    assert made.nbytes >= 16 * 100_000
    assert sys.getsizeof(made) - small >= 16 * 100_000
    assert repr(made) == "<fanread.U64Map of 100000 entries, uint64 to uint64>"


WITHOUT_MEMORY = """
import resource
import numpy as np
import fanread
keys = np.arange(2_000_000, dtype=np.uint64)
made = fanread.U64Map.from_sorted(keys, keys)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), hard))
for call in (made.to_numpy, made.items, made.__iter__, made.__reduce__, lambda: made.range_arrays(1)):
    try:
        call()
    except fanread.OutOfMemoryError as error:
        assert isinstance(error, MemoryError)
    else:
        raise SystemExit("there was memory")
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
assert (made.to_numpy()[0] == keys).all()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_arrays_for_which_there_is_no_memory_say_so():
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_batches_of_many_threads_run_at_a_time_and_other_code_meanwhile():
    count, threads = 60_000, 4
    made = U64Map()
    keys = np.random.default_rng(1).permutation(np.arange(count * threads, dtype=np.uint64))
    parts = np.split(keys, threads)
    barrier = threading.Barrier(threads)
    wrong = []

    def work(part):
        barrier.wait()
        for at in range(0, count, 10_000):
            some = part[at : at + 10_000].copy()
            made.insert_many(some, some * 3)
            if not (made.get_many(some) == some * 3).all():
                wrong.append(at)
            if made.remove_many(some[:100].copy()) != 100 or made.contains_many(some).sum() != 9_900:
                wrong.append(at)

    running = [threading.Thread(target=work, args=(part,)) for part in parts]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong
    assert len(made) == count * threads * 99 // 100
    found, values = made.to_numpy()
    assert (found[1:] > found[:-1]).all()
    assert (values == found * 3).all()


def test_an_array_that_is_written_to_meanwhile_does_no_harm():
    made = U64Map()
    keys = np.arange(100_000, dtype=np.uint64)
    made.insert_many(keys, keys)
    moving = keys.copy()
    done = threading.Event()

    def scribble():
        while not done.is_set():
            moving[:] = keys[::-1]
            moving[:] = keys

    thread = threading.Thread(target=scribble)
    thread.start()
    for _ in range(5):
        assert made.get_many(moving, default=2**64 - 1).max() < 100_000
    done.set()
    thread.join()


def test_an_array_is_not_resized_while_a_batch_has_it():
    # What numpy.empty is for the answer comes between the look at the keys and the batch.
    code = """
import numpy as np

empty, refused = np.empty, []

def meanwhile(*arguments):
    try:
        whole.resize(1, refcheck=False)
    except ValueError:
        refused.append(len(whole))
    return empty(*arguments)

np.empty = meanwhile
from fanread import U64Map

numbers = U64Map()
whole = np.arange(1000, dtype="uint64")
for keys in (whole, whole[10:]):
    numbers.insert_many(keys, keys)
    assert np.array_equal(numbers.get_many(keys), keys)
    assert numbers.contains_many(keys).all()
del keys
assert refused == [1000] * 4, refused
whole.resize(1, refcheck=False)
assert len(whole) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)
