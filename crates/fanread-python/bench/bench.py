"""Times the maps beside dict and sortedcontainers.SortedDict, in one process, with every answer checked.

    python bench.py [--count 5000000] [--lookups 1000000] [--rounds 3] [--skip-text]

Random keys, in a random order. A round times each map once, one after the other; the figure is the median of the rounds, in
nanoseconds per operation, loop included. Memory is what the process grew by per entry, with keys that nobody else holds, and values
that are all one object. Exit status 1 if an answer is wrong.
"""

import argparse
import gc
import random
import statistics
import sys
import time

import numpy as np
from sortedcontainers import SortedDict

from fanread import SortedMap, U64Map


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def timed(work, count):
    begin = time.perf_counter()
    answer = work()
    return (time.perf_counter() - begin) / count * 1e9, answer


def median_of(rounds, subjects, count):
    """Times all subjects in each round; returns the medians, and the answers of the last round."""
    times = {name: [] for name in subjects}
    answers = {}
    for _ in range(rounds):
        for name, work in subjects.items():
            nanoseconds, answers[name] = timed(work, count)
            times[name].append(nanoseconds)
    return {name: statistics.median(some) for name, some in times.items()}, answers


def show(title, medians, first):
    print(f"{title:34}", end="")
    for name, nanoseconds in medians.items():
        print(f"{name}: {nanoseconds:8.1f}", end="  ")
    for name, nanoseconds in medians.items():
        if name != first:
            print(f"{name}/{first} = {nanoseconds / medians[first]:.2f}", end="  ")
    print(flush=True)


def insert_all(made, keys):
    for key in keys:
        made[key] = None
    return len(made)


def sum_of(made, keys):
    total = 0
    for key in keys:
        total += made[key]
    return total


def sum_of_get(made, keys):
    get, total = made.get, 0
    for key in keys:
        total += get(key)
    return total


def count_of(made, keys):
    total = 0
    for key in keys:
        if key in made:
            total += 1
    return total


def replace_all(made, keys, values):
    for key in keys:
        made[key] = values[key]


def delete_all(made, keys):
    for key in keys:
        del made[key]
    return len(made)


def points(kind, keys, lookups, rounds):
    """Point calls of SortedMap beside SortedDict's."""
    print(f"\n{len(keys):,} keys, {kind}; ns per call")
    values = dict(zip(keys, range(len(keys))))
    times, maps = {}, {}
    for made in (SortedDict(), SortedMap()):
        name = type(made).__name__
        times[name], length = timed(lambda made=made: insert_all(made, keys), len(keys))
        assert length == len(keys)
        maps[name] = made
    show("insert in random order", times, "SortedMap")
    assert list(maps["SortedMap"]) == list(maps["SortedDict"]) == sorted(keys)
    for made in maps.values():
        replace_all(made, keys, values)
    sought = random.sample(keys, lookups)
    # Objects that the maps have not seen, as a program that reads its keys from somewhere has them.
    absent = [key + 1 for key in sought] if kind == "int" else [key + "x" for key in sought]
    fresh = [int(str(key)) for key in sought] if kind == "int" else [str(key.encode(), "ascii") for key in sought]
    expected = sum(values[key] for key in sought)
    there = sum(key in values for key in absent)
    for title, work, some, right in (
        ("[key], the stored object", sum_of, sought, expected),
        ("[key], an equal object", sum_of, fresh, expected),
        ("get(key), an equal object", sum_of_get, fresh, expected),
        ("key in, present", count_of, fresh, lookups),
        ("key in, absent", count_of, absent, there),
        ("[key] = value, present", lambda made, keys: replace_all(made, keys, values), sought, None),
    ):
        medians, answers = median_of(
            rounds,
            {name: lambda made=made, some=some, work=work: work(made, some) for name, made in maps.items()},
            lookups,
        )
        assert set(answers.values()) == {right}, (title, answers, right)
        show(title, medians, "SortedMap")
    times = {}
    for name, made in maps.items():
        times[name], length = timed(lambda made=made: delete_all(made, sought), lookups)
        assert length == len(keys) - lookups
    show("del [key], random order", times, "SortedMap")


def batches(keys, rounds):
    """get_many of U64Map beside list comprehensions."""
    print(f"\n{len(keys):,} keys, u64; ns per key")
    listed = keys.tolist()
    plain = dict(zip(listed, range(len(listed))))
    ordered = SortedDict(plain)
    values = np.arange(len(keys), dtype=np.uint64)
    made = U64Map()
    nanoseconds, _ = timed(lambda: made.insert_many(keys, values), len(keys))
    print(f"{'insert_many, random order':34}U64Map: {nanoseconds:8.1f}")
    order = np.random.default_rng(3).permutation(len(keys))
    sought = keys[order]
    sought_list = sought.tolist()
    medians, answers = median_of(
        rounds,
        {
            "U64Map": lambda: made.get_many(sought),
            "dict": lambda: [plain[key] for key in sought_list],
            "SortedDict": lambda: [ordered[key] for key in sought_list],
        },
        len(keys),
    )
    right = values[order]
    for name, answer in answers.items():
        assert (np.asarray(answer, dtype=np.uint64) == right).all(), name
    show("get_many", medians, "U64Map")
    medians, answers = median_of(
        rounds,
        {"U64Map": lambda: made.contains_many(sought ^ np.uint64(1)).sum(), "dict": lambda: sum([key ^ 1 in plain for key in sought_list])},
        len(keys),
    )
    assert len(set(map(int, answers.values()))) == 1
    show("contains_many, absent", medians, "U64Map")
    keys_sorted, values_sorted = made.to_numpy()
    nanoseconds, again = timed(lambda: U64Map.from_sorted(keys_sorted, values_sorted), len(keys))
    assert len(again) == len(keys)
    print(f"{'from_sorted':34}U64Map: {nanoseconds:8.1f}")
    print(f"{'bytes per entry':34}U64Map: {made.nbytes / len(keys):8.1f}")


def memory(kind, numbers):
    """What the process grows by per entry."""
    print(f"\n{len(numbers):,} keys, {kind}; bytes per entry, keys included, values not")
    found = {}
    for made in (SortedMap(), SortedDict()):
        gc.collect()
        before = resident()
        for at in range(0, len(numbers), 10_000):
            for number in numbers[at : at + 10_000].tolist():
                made[number if kind == "int" else f"user:{number:014d}"] = None
        found[type(made).__name__] = (resident() - before) / len(numbers)
        if isinstance(made, SortedMap):
            print(f"{'nbytes':34}SortedMap: {made.nbytes / len(made):8.1f}")
        made.clear()
        del made
    show("grown by", found, "SortedMap")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=5_000_000)
    arguments.add_argument("--lookups", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--skip-text", action="store_true")
    given = arguments.parse_args()
    lookups = min(given.lookups, given.count)
    random.seed(1)
    numbers = np.unique(np.random.default_rng(2).integers(0, 2**48, given.count * 11 // 10, dtype=np.uint64))
    numbers = np.random.default_rng(3).permutation(numbers)[: given.count]
    memory("int", numbers)
    if not given.skip_text:
        memory("str", numbers)
    batches(numbers, given.rounds)
    small = numbers[: min(len(numbers), 1_000_000)]
    for some in [small] if len(small) == len(numbers) else [small, numbers]:
        points("int", some.tolist(), min(lookups, len(some)), given.rounds)
        if not given.skip_text:
            points("str", [f"user:{number:014d}" for number in some.tolist()], min(lookups, len(some)), given.rounds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as wrong:
        sys.exit(f"wrong answer: {wrong}")
