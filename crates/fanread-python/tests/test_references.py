"""References are counted right: every object that goes into a map is given up exactly once."""

import gc
import subprocess
import sys
import weakref

import pytest

from fanread import SortedMap


class Value:
    """Something that weak references can watch."""


def test_the_lock_of_the_interpreter_is_kept():
    # Where it is optional an import may need it, and references are counted under it.
    assert getattr(sys, "_is_gil_enabled", lambda: True)()


def test_each_call_keeps_the_count():
    value, other = Value(), Value()
    start = sys.getrefcount(value)

    def held():
        return sys.getrefcount(value) - start

    made = SortedMap()
    made["a"] = value
    assert held() == 1
    made["a"] = value
    assert held() == 1
    made.setdefault("a", value)
    made.setdefault("b", value)
    assert held() == 2
    made.update(a=value, c=value)
    assert held() == 3
    for _ in range(100):
        assert made["a"] is value
        assert made.get("a") is value
        assert made.get("z", value) is value
        assert "a" in made
        assert made.pop("z", value) is value
        assert made.peekitem() == ("c", value)
        assert made.floor("b") == ("b", value)
        assert list(made.values()) == [value] * 3
        assert list(made.irange_items("b"))[0] == ("b", value)
        assert made.copy() == made
        assert (made | made) == made
        list(zip(made.items(), range(2)))
    assert held() == 3
    assert made.pop("c") is value
    assert held() == 2
    assert made.popitem() == ("b", value)
    assert held() == 1
    made["a"] = other
    assert held() == 0
    made["a"] = value
    del made["a"]
    assert held() == 0
    made.update((str(n), value) for n in range(1000))
    assert held() == 1000
    made.clear()
    assert held() == 0
    made.update((str(n), value) for n in range(1000))
    walk = iter(made.values())
    next(walk)
    del made
    assert held() == 1000
    del walk
    assert held() == 0


def test_another_form_keeps_the_count():
    value = Value()
    start = sys.getrefcount(value)
    made = SortedMap((n, value) for n in range(1000))
    assert sys.getrefcount(value) - start == 1000
    walk = iter(made.values())
    next(walk)
    for further in (2**63, -1, 2**64):
        made[further] = value
    with pytest.raises(RuntimeError, match="changed size"):
        next(walk)
    assert sys.getrefcount(value) - start == 1003
    assert made.pop(2**64) is made[999] is value
    made.clear()
    assert sys.getrefcount(value) - start == 0
    made = SortedMap.from_sorted((n, value) for n in (1, 2, 2**63))
    made[-1] = value
    assert sys.getrefcount(value) - start == 4
    del made, walk
    assert sys.getrefcount(value) == start


WITHOUT_MEMORY = """
import resource, sys
from fanread import SortedMap
count = 300_000
value = object()
start = sys.getrefcount(value)
made = SortedMap((n * 7919, value) for n in range(count))
walk = iter(made)
next(walk)
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), hard))
try:
    made[-(10**30)] = value
except MemoryError:
    pass
else:
    sys.exit("there was memory")
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
assert len(made) == count and sys.getrefcount(value) - start == count
assert [0, *walk] == list(made) == [n * 7919 for n in range(count)]
made[-(10**30)] = value
assert next(iter(made)) == -(10**30) and len(made) == count + 1
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_another_form_for_which_there_is_no_memory_changes_nothing():
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_refused_write_keeps_nothing():
    value = Value()
    start = sys.getrefcount(value)
    made = SortedMap(a=value)
    for call in (
        lambda: made.__setitem__(1, value),
        lambda: made.__setitem__("x" * 70_000, value),
        lambda: made.setdefault(1, value),
        lambda: made.update([("b", value), (1, value)]),
        lambda: made.update([("b", value), (value, value, value)]),
        lambda: made.update([("b", value), value]),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert sys.getrefcount(value) - start == 2
    del made
    assert sys.getrefcount(value) == start


def test_an_exception_in_a_callback_leaves_what_was_inserted():
    value = Value()
    start = sys.getrefcount(value)

    def pairs():
        yield "a", value
        yield "b", value
        raise OSError

    made = SortedMap()
    with pytest.raises(OSError):
        made.update(pairs())
    assert list(made) == ["a", "b"]
    del made
    gc.collect()
    assert sys.getrefcount(value) == start

    class Unequal:
        def __eq__(self, other):
            raise OSError

    with pytest.raises(OSError):
        SortedMap(a=Unequal()) == {"a": Unequal()}


def test_cycles_through_values_are_collected():
    for build in (
        lambda made: made.__setitem__("me", made),
        lambda made: made.__setitem__("me", [made]),
        lambda made: made.__setitem__("me", made.items()),
        lambda made: made.__setitem__("me", iter(made)),
        lambda made: setattr(made, "me", made),
    ):
        made = SortedMap()
        witness = Value()
        made["witness"] = witness
        build(made)
        seen = weakref.ref(witness)
        of_map = weakref.ref(made)
        del witness
        gc.collect()
        assert seen() is not None
        del made
        assert seen() is not None
        gc.collect()
        assert seen() is None
        assert of_map() is None


def test_what_is_reachable_survives_a_collection():
    made = SortedMap((n, [n]) for n in range(5000))
    made[-1] = made
    gc.collect()
    assert len(made) == 5001
    assert all(made[n] == [n] for n in range(5000))


class Nosy:
    """Looks at a map, and changes it, when it is given up."""

    def __init__(self, made, act):
        self.made, self.act = made, act

    def __del__(self):
        self.act(self.made)


def test_giving_up_a_value_may_use_the_map():
    seen = []

    def act(made):
        seen.append((len(made), list(made)))
        made["new"] = 5
        made.pop("b", None)

    made = SortedMap()
    made["a"] = Nosy(made, act)
    made["b"] = 1
    made["a"] = 2
    assert seen == [(2, ["a", "b"])]
    assert made == {"a": 2, "new": 5}
    made["a"] = Nosy(made, act)
    del made["a"]
    assert seen[1] == (1, ["new"])
    made["a"] = Nosy(made, act)
    made["c"] = Nosy(made, act)
    made.clear()
    assert seen[2:] == [(0, []), (1, ["new"])]
    assert made == {"new": 5}


def test_giving_up_a_value_may_change_the_kind():
    def act(made):
        made.clear()
        made[1] = "one"

    made = SortedMap()
    made["a"] = Nosy(made, act)
    made["a"] = 2
    assert made == {1: "one"}
    assert list(made) == [1]


def test_giving_up_a_value_during_iteration_may_change_the_map():
    made = SortedMap((n, Nosy(None, lambda _: made.__setitem__(10_000, None))) for n in range(100))
    with pytest.raises(RuntimeError, match="changed size"):
        for n, key in enumerate(made):
            made[key] = None
    made.clear()


def test_maps_nested_deep_are_given_up_without_a_deep_stack():
    witness = Value()
    seen = weakref.ref(witness)
    made = SortedMap(a=witness)
    del witness
    for _ in range(50_000):
        made = SortedMap(a=made)
    del made
    assert seen() is None


def test_an_exception_in_del_does_not_stop_the_rest():
    seen = []

    def act(n):
        seen.append(n)
        raise ValueError(n)

    made = SortedMap((n, Nosy(n, act)) for n in range(100))
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        made.clear()
    finally:
        sys.unraisablehook = hook
    assert seen == list(range(100))
