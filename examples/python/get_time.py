"""How long a get takes, against the size of the map: dict, SortedDict, SortedMap, and U64Map in batches.

    python get_time.py [--keys FILE] [--most N] [--out FILE.png]

Indexes lines of text: a file's, or the system's list of words, or the paths of the files below /usr; if these are too few, names are
made up. Numbers are the places of the lines. Prints a table, and draws it. Needs `pip install sortedcontainers matplotlib`.
"""

# %% What is indexed.

import argparse
import os
import random
import time
from itertools import islice

import numpy as np
from sortedcontainers import SortedDict

from fanread import SortedMap, U64Map

WORDS = "/usr/share/dict/words"


def paths(below):
    for folder, _, names in os.walk(below):
        for name in names:
            yield os.path.join(folder, name)


def key_set(file, most):
    """Up to so many different keys, and what they are."""
    if file or os.path.exists(WORDS):
        with open(file or WORDS, encoding="utf-8", errors="surrogateescape") as lines:
            keys, what = list(dict.fromkeys(islice((line.rstrip("\n") for line in lines), most))), file or WORDS
    else:
        keys, what = list(dict.fromkeys(islice(paths("/usr"), most))), "paths below /usr"
    if len(keys) < most and not file:
        made_up = (f"{random.choice('abcdefgh')}/{random.getrandbits(40):010x}" for _ in range(most - len(keys)))
        keys, what = list(dict.fromkeys([*keys, *made_up])), f"{what}, and names made up"
    random.shuffle(keys)
    return keys, what


# %% What is timed.

REPEATS = 3


def nanoseconds(work, count):
    """The least time of some runs, for one of so many steps."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times) / count * 1e9


def look_up(made, keys):
    for key in keys:
        made[key]


def measure(keys, size, lookups):
    some = keys[:size]
    sought = random.choices(some, k=lookups)
    pairs = [(key, place) for place, key in enumerate(some)]
    found = {}
    for kind in (dict, SortedDict, SortedMap):
        made = kind(pairs)
        assert all(made[key] == place for key, place in pairs)
        found[kind.__name__] = nanoseconds(lambda made=made: look_up(made, sought), lookups)
    # Numbers in place of the keys: what a data frame would have.
    numbers = np.random.default_rng(size).permutation(np.arange(size, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15))
    made = U64Map()
    made.insert_many(numbers, np.arange(size, dtype=np.uint64))
    sought_numbers = np.random.default_rng(1).choice(numbers, lookups)
    found["U64Map.get_many"] = nanoseconds(lambda: made.get_many(sought_numbers), lookups)
    return found


# %% What comes out.


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--keys", metavar="FILE", help="a file with a key on each line")
    arguments.add_argument("--most", type=int, default=1_000_000, help="the largest size")
    arguments.add_argument("--out", default="get_time.png", help="where the plot goes")
    given = arguments.parse_args()

    keys, what = key_set(given.keys, given.most)
    sizes = [len(keys) >> shift for shift in range(7, -1, -1) if len(keys) >> shift >= 100] or [len(keys)]
    results = []
    for size in sizes:
        results.append(measure(keys, size, min(given.most, 200_000)))
        print(f"{size:>10,}", *(f"{name} {ns:7.1f} ns" for name, ns in results[-1].items()), sep="   ")

    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name in results[0]:
        axes.plot(sizes, [found[name] for found in results], marker="o", label=name)
    axes.set(xscale="log", xlabel="entries", ylabel="ns for a get", title=f"Time of a get ({what})", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(given.out, dpi=120)
    print(f"drawn to {given.out}")


if __name__ == "__main__":
    main()
