"""SortedMap against dict and sorted list: any sequence of calls, for each kind of key."""

import bisect
import gc
import pickle

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fanread import SortedMap

POOLS = {
    "int": st.integers(-9, 9) | st.integers() | st.sampled_from([2**63, -(2**63), 2**64, 10**300]),
    "str": st.text("ab\x00\x80\ud800\U0001f600", max_size=4) | st.text(max_size=20),
    "bytes": st.binary(max_size=3) | st.binary(max_size=40),
}


def machine(kind):
    key = POOLS[kind]
    pairs = st.lists(st.tuples(key, st.integers()), max_size=40)

    class Model(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.map = SortedMap()
            self.model = {}
            self.keys = []

        def sort(self):
            self.keys = sorted(self.model)

        @rule(key=key, value=st.integers())
        def insert(self, key, value):
            self.map[key] = self.model[key] = value
            self.sort()

        @rule(pairs=pairs)
        def update(self, pairs):
            self.map.update(pairs)
            self.model.update(pairs)
            self.sort()

        @rule(key=key, value=st.integers())
        def setdefault(self, key, value):
            assert self.map.setdefault(key, value) == self.model.setdefault(key, value)
            self.sort()

        @rule(key=key)
        def pop(self, key):
            assert self.map.pop(key, None) == self.model.pop(key, None)
            self.sort()

        @rule(index=st.integers(-50, 50))
        def popitem(self, index):
            if -len(self.keys) <= index < len(self.keys):
                key = self.keys[index]
                assert self.map.popitem(index) == (key, self.model.pop(key))
                self.sort()

        @rule(key=key, other=key, low=st.booleans(), high=st.booleans(), reverse=st.booleans())
        def ranges(self, key, other, low, high, reverse):
            start = (bisect.bisect_left if low else bisect.bisect_right)(self.keys, key)
            stop = (bisect.bisect_right if high else bisect.bisect_left)(self.keys, other)
            expected = self.keys[start:stop]
            assert list(self.map.irange(key, other, (low, high), reverse)) == expected[:: -1 if reverse else 1]
            assert self.map.bisect_left(key) == bisect.bisect_left(self.keys, key)
            assert self.map.bisect_right(key) == bisect.bisect_right(self.keys, key)

        @rule(key=key)
        def neighbours(self, key):
            left, right = bisect.bisect_left(self.keys, key), bisect.bisect_right(self.keys, key)
            for found, at in (
                (self.map.lower(key), left - 1),
                (self.map.floor(key), right - 1),
                (self.map.ceiling(key), left),
                (self.map.higher(key), right),
            ):
                if 0 <= at < len(self.keys):
                    assert found == (self.keys[at], self.model[self.keys[at]])
                else:
                    assert found is None

        if kind != "int":

            @rule(key=key)
            def prefix(self, key):
                assert list(self.map.prefix(key)) == [k for k in self.keys if k.startswith(key)]

        @rule()
        def collect(self):
            gc.collect()

        @rule()
        def copies(self):
            self.map = pickle.loads(pickle.dumps(self.map.copy()))

        @rule()
        def clear(self):
            self.map.clear()
            self.model.clear()
            self.sort()

        @invariant()
        def is_the_model(self):
            assert len(self.map) == len(self.model)
            assert list(self.map) == self.keys
            assert list(reversed(self.map)) == self.keys[::-1]
            assert self.map == self.model
            assert all(self.map[key] == value for key, value in self.model.items())

    return Model.TestCase


TestInts = machine("int")
TestText = machine("str")
TestBytes = machine("bytes")
