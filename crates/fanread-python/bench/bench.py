"""Times the maps beside dict and sortedcontainers.SortedDict, in one process, with every answer checked.

    python bench.py [--count 5000000] [--lookups 300000] [--rounds 3] [--only memory|speed|numbers|text]

Random keys, in a random order. A round times each map once, one after the other; the figure is the median of the rounds, in
nanoseconds per operation, loop included. Memory is what a fresh process grows by per entry, with keys that nobody else holds, and
values that are all one object. Exit status 1 if an answer is wrong.
"""

import argparse
import gc
import random
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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


def insert_all(made, pairs):
    for key, value in pairs:
        made[key] = value
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


def replace_all(made, pairs):
    for key, value in pairs:
        made[key] = value


def sum_keys(made):
    total = 0
    for key in made:
        total += 1
    return total


def sum_items(made):
    total = 0
    for key, value in made.items():
        total += value
    return total


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
        times[name], length = timed(lambda made=made: insert_all(made, values.items()), len(keys))
        assert length == len(keys)
        maps[name] = made
    show("insert in random order", times, "SortedMap")
    assert list(maps["SortedMap"]) == list(maps["SortedDict"]) == sorted(keys)
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
        ("[key] = value, present", replace_all, [(key, values[key]) for key in fresh], None),
    ):
        medians, answers = median_of(
            rounds,
            {name: lambda made=made, some=some, work=work: work(made, some) for name, made in maps.items()},
            lookups,
        )
        assert set(answers.values()) == {right}, (title, answers, right)
        show(title, medians, "SortedMap")
    for title, work in (("iterate over keys, per key", sum_keys), ("iterate over items, per item", sum_items)):
        times, answers = {}, set()
        for name, made in maps.items():
            times[name], answer = timed(lambda made=made, work=work: work(made), len(keys))
            answers.add(answer)
        assert len(answers) == 1
        show(title, times, "SortedMap")
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


def grown(name, kind, count):
    """What this process, a fresh one, grows by per entry of a map; and what the map says of itself."""
    made = {"SortedMap": SortedMap, "SortedDict": SortedDict}[name]()
    numbers = random_numbers(count, 48 if kind == "int of 48 bits" else 64)
    gc.collect()
    before = resident()
    for at in range(0, count, 10_000):
        for number in numbers[at : at + 10_000].tolist():
            made[f"user:{number:020d}" if kind == "str of 25" else number] = None
    return (resident() - before) / count, made.nbytes / count if name == "SortedMap" else 0


def memory(count, kinds):
    """Memory of SortedMap beside SortedDict's, each in a process of its own."""
    print(f"{count:,} keys; bytes per entry, keys included, values not")
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as processes:
        names = ("SortedMap", "SortedDict")
        waited = {(kind, name): processes.submit(grown, name, kind, count) for kind in kinds for name in names}
        for kind in kinds:
            show(kind, {name: waited[kind, name].result()[0] for name in names}, "SortedMap")
            print(f"{'  nbytes':34}SortedMap: {waited[kind, 'SortedMap'].result()[1]:8.1f}", flush=True)


def random_numbers(count, bits):
    """So many different numbers, in random order."""
    numbers = np.unique(np.random.default_rng(2).integers(0, 2**bits - 1, count * 11 // 10, dtype=np.uint64))
    return np.random.default_rng(3).permutation(numbers)[:count]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=5_000_000)
    arguments.add_argument("--lookups", type=int, default=300_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=["memory", "speed", "numbers", "text"], help="a part of it")
    given = arguments.parse_args()
    lookups = min(given.lookups, given.count)
    random.seed(1)
    if given.only in (None, "memory", "numbers"):
        memory(given.count, ["int of 64 bits", "int of 48 bits", "str of 25"])
    if given.only == "memory":
        return 0
    numbers = random_numbers(given.count, 64)
    if given.only != "text":
        batches(numbers, given.rounds)
        points("int", numbers.tolist(), lookups, given.rounds)
    if given.only != "numbers":
        points("str", [f"user:{number:020d}" for number in numbers.tolist()], lookups, given.rounds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as wrong:
        sys.exit(f"wrong answer: {wrong}")
