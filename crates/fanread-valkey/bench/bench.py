"""The module beside the server's own types, in one run against one server.

    bench.py MODULE [--entries 1000000] [--operations 200000] [--rounds 3] [--only load,points,scans,single,memory,small]

Entries have fields of 20 bytes and values of 100. Requests are written to files first and sent at once, and replies are not
looked into: what is timed is the server. Both sides take turns, and the medians are compared. Mixes are those of
YCSB: A half reads and half updates, B 95 to 5, C reads, D 95 reads of what is new and 5 insertions, E 95 scans of up to 100 entries and 5
insertions, F reads half of which write back. `single` sends one request at a time over 50 connections, by redis-benchmark.
"""

import argparse
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def field(number):
    # Numbers are spread over all fields of 20 bytes, so that neighbours come in no order.
    return b"user%016x" % ((number * 0x9E3779B97F4A7C15 + 0x7F4A7C15) & (2**64 - 1))


def value(chance):
    return b"%0100d" % chance.randrange(10**18)


class Theirs:
    """A hash for points; a sorted set beside it for order."""

    name = "hash"

    def put(self, key, value):
        return encode("HSET", "h", key, value)

    def insert(self, key, value):
        return encode("HSET", "h", key, value) + encode("ZADD", "z", 0, key)

    def get(self, key):
        return encode("HGET", "h", key)

    def scan(self, start, fields):
        # The second request needs the answer of the first, which the file knows already.
        return encode("ZRANGE", "z", b"[" + start, "+", "BYLEX", "LIMIT", 0, len(fields)) + encode("HMGET", "h", *fields)


class Ours:
    name = "omap"

    def put(self, key, value):
        return encode("OMAP.SET", "m", key, value)

    insert = put

    def get(self, key):
        return encode("OMAP.GET", "m", key)

    def scan(self, start, fields):
        return encode("OMAP.RANGE", "m", b"[" + start, "+", "LIMIT", 0, len(fields))


def mix(side, name, entries, operations, seed):
    """The requests of a mix, and how many operations they are."""
    chance = random.Random(seed)
    order = sorted(field(number) for number in range(entries)) if name == "E" else []
    added = entries
    for _ in range(operations):
        percent = chance.randrange(100)
        # Some entries are asked for far more often than others.
        number = min(int(entries * chance.random() ** 3), entries - 1)
        if name == "A" and percent < 50 or name == "B" and percent < 5:
            yield side.put(field(number), value(chance))
        elif name in "DE" and percent < 5:
            yield (side.put if name == "D" else side.insert)(field(added), value(chance))
            added += 1
        elif name == "D":
            yield side.get(field(added - 1 - min(int(chance.expovariate(0.001)), added - 1)))
        elif name == "E":
            at = chance.randrange(entries)
            fields = order[at : at + 100]
            yield side.scan(fields[0], fields)
        elif name == "F" and percent < 50:
            yield side.get(field(number)) + side.put(field(number), value(chance))
        else:
            yield side.get(field(number))


END = b"the end of these requests"


def take_replies(server):
    """Takes replies as they come, unread but for errors, up to that of the last request, an ECHO of END."""
    tail = b""
    while not tail.endswith(END + b"\r\n"):
        part = server.recv(1 << 20)
        assert part and b"\r\n-" not in part, part[:200]
        tail = (tail + part)[-100:]


def pipe(port, path):
    """Sends a file of requests and takes the replies as they come, unread but for errors; how long that took."""
    with socket.create_connection(("127.0.0.1", port)) as server, path.open("ab+") as requests:
        requests.write(encode("ECHO", END))
        requests.flush()
        requests.seek(0)
        start = time.perf_counter()
        sender = threading.Thread(target=server.sendfile, args=(requests,))
        sender.start()
        take_replies(server)
        seconds = time.perf_counter() - start
        sender.join()
        # As it was, for the next round.
        requests.truncate(requests.seek(0, 2) - len(encode("ECHO", END)))
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="load,points,scans,single,memory,small")
    args = parser.parse_args()
    wanted = args.only.split(",")

    import os

    os.environ["FANREAD_MODULE"] = args.module
    from conftest import Server

    server = Server()
    client = server.client()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="omap-bench-"))
    sides = [Theirs(), Ours()]

    def compare(name, requests, operations):
        times = {side.name: [] for side in sides}
        for side in sides:
            (folder / side.name).write_bytes(b"".join(requests(side)))
        for round in range(args.rounds):
            for side in sides if round % 2 == 0 else sides[::-1]:
                times[side.name].append(pipe(server.port, folder / side.name))
        theirs, ours = (operations / statistics.median(times[side.name]) for side in sides)
        spread = ", ".join(f"{side.name} {min(times[side.name]):.2f} to {max(times[side.name]):.2f} s" for side in sides)
        print(f"{name:8} theirs {theirs:10,.0f}/s  ours {ours:10,.0f}/s  ratio {ours / theirs:.2f}   ({spread})", flush=True)

    entries = range(args.entries)
    memory = [client.info("memory")["used_memory"]]
    for side in sides:
        chance = random.Random(1)
        path = folder / "load"
        with path.open("wb") as out:
            for number in entries:
                out.write(side.put(field(number), value(chance)))
        seconds = pipe(server.port, path)
        print(f"load     {side.name} {args.entries / seconds:,.0f}/s", flush=True)
        memory.append(client.info("memory")["used_memory"])
    hash_bytes = (memory[1] - memory[0]) / args.entries - 120
    ours_bytes = client.memory_usage("m") / args.entries - 120
    seen_bytes = (memory[2] - memory[1]) / args.entries - 120
    if "scans" in wanted or "memory" in wanted:
        before = client.info("memory")["used_memory"]
        path.write_bytes(b"".join(encode("ZADD", "z", 0, field(number)) for number in entries))
        pipe(server.port, path)
        zset = (client.info("memory")["used_memory"] - before) / args.entries
        print(f"bytes an entry beside 20 and 100: hash {hash_bytes:.1f}, with zset {hash_bytes + zset:.1f}, omap {ours_bytes:.1f}", end="")
        print(f" (of which used_memory sees {seen_bytes:.1f})")
    for name in "ABCDF" if "points" in wanted else "":
        compare(name, lambda side: mix(side, name, args.entries, args.operations, 7), args.operations)
    if "scans" in wanted:
        count = max(1, args.operations // 20)
        compare("E", lambda side: mix(side, "E", args.entries, count, 8), count)
    if "single" in wanted:
        for name, theirs, ours in [
            ("get", ["HGET", "h", "user__rand_int__0000"], ["OMAP.GET", "m", "user__rand_int__0000"]),
            ("set", ["HSET", "h", "user__rand_int__0000", "x" * 100], ["OMAP.SET", "m", "user__rand_int__0000", "x" * 100]),
        ]:
            rates = ([], [])
            for _ in range(args.rounds):
                for words, rate in zip((theirs, ours), rates):
                    command = ["redis-benchmark", "-p", str(server.port), "-n", str(args.operations), "-r", str(args.entries)]
                    done = subprocess.run([*command, "--csv", *words], capture_output=True, text=True, check=True)
                    rate.append(float(done.stdout.splitlines()[-1].split('","')[1]))
            theirs, ours = map(statistics.median, rates)
            print(f"1 by 1   {name}: theirs {theirs:,.0f}/s  ours {ours:,.0f}/s  ratio {ours / theirs:.2f}", flush=True)
    if "small" in wanted:
        for name, command in [("hash", "HSET"), ("omap", "OMAP.SET")]:
            client.flushall()
            before = client.info("memory")["used_memory"]
            words = [[part for entry in range(10) for part in (b"field%d" % entry, b"value %05d" % ((number * 7 + entry) % 99991))] for number in range(1000)]
            path.write_bytes(b"".join(encode(command, "map:%06d" % number, *words[number % 1000]) for number in range(100_000)))
            pipe(server.port, path)
            each = (client.info("memory")["used_memory"] - before) / 100_000
            print(f"a small map of ten entries, with its key: {name} {each:.0f} bytes")
    server.close()


if __name__ == "__main__":
    main()
