"""Random commands against a model of a few lines."""

import os
import random

import redis

from test_commands import mapping

COMMANDS = int(os.environ.get("FANREAD_COMMANDS", 20_000))


class Model:
    """What the commands mean, on a dictionary."""

    def __init__(self):
        self.maps = {}

    def span(self, key, low, high):
        def inside(field):
            above = low == b"-" or low != b"+" and (field > low[1:] if low[:1] == b"(" else field >= low[1:])
            below = high == b"+" or high != b"-" and (field < high[1:] if high[:1] == b"(" else field <= high[1:])
            return above and below

        return sorted(field for field in self.maps.get(key, {}) if inside(field))

    def flat(self, key, fields):
        return [part for field in fields for part in (field, self.maps[key][field])]

    def remove(self, key, fields):
        entries = self.maps.get(key, {})
        removed = sum(entries.pop(field, None) is not None for field in fields)
        if not entries:
            self.maps.pop(key, None)
        return removed

    def run(self, name, key, *args):
        entries = self.maps.get(key, {})
        if name == "SET":
            new = dict(zip(args[::2], args[1::2]))
            added = len(new.keys() - entries.keys())
            self.maps.setdefault(key, {}).update(new)
            return added
        if name == "SETNX":
            return 0 if args[0] in entries else self.run("SET", key, *args)
        if name == "PUT":
            field, value, *options = args
            old = entries.get(field)
            holds = not (b"NX" in options and old is not None) and not (b"XX" in options and old is None)
            if holds:
                self.run("SET", key, field, value)
            return old if b"GET" in options else b"OK" if holds else None
        if name == "GET":
            return entries.get(args[0])
        if name == "MGET":
            return [entries.get(field) for field in args]
        if name == "MEXISTS":
            return [int(field in entries) for field in args]
        if name == "DEL":
            return self.remove(key, args)
        if name == "GETDEL":
            old = entries.get(args[0])
            self.remove(key, args)
            return old
        if name == "LEN":
            return len(entries)
        if name == "INCRBY":
            sum = int(entries.get(args[0], 0)) + int(args[1])
            self.run("SET", key, args[0], b"%d" % sum)
            return sum
        if name == "RANGE":
            low, high, *options = args
            reverse = b"REV" in options
            fields = self.span(key, high, low)[::-1] if reverse else self.span(key, low, high)
            if b"LIMIT" in options:
                at = options.index(b"LIMIT")
                offset, count = int(options[at + 1]), int(options[at + 2])
                fields = fields[offset:] if count < 0 else fields[offset : offset + count]
            return self.flat(key, fields)
        if name == "PREFIX":
            return self.flat(key, sorted(field for field in entries if field.startswith(args[0])))
        if name == "COUNT":
            return len(self.span(key, *args))
        if name == "DELRANGE":
            low, high, *options = args
            fields = self.span(key, low, high)
            return self.remove(key, fields[: int(options[1])] if options else fields)
        if name == "POPMIN":
            fields = sorted(entries)[: int(args[0])]
        if name == "POPMAX":
            fields = sorted(entries)[::-1][: int(args[0])]
        reply = self.flat(key, fields)
        self.remove(key, fields)
        return reply


def command(chance):
    """A random command on one of a few keys."""

    def field():
        if chance.random() < 0.3:
            return b"%d" % chance.randrange(400)
        return bytes(chance.choice(b"\0ab\xff") for _ in range(chance.choice([0, 1, 1, 2, 3, 30])))

    def bound():
        return chance.choice([b"-", b"+", b"[" + field(), b"(" + field()])

    def value():
        return chance.choice([b"", b"x", b"1234567", b"12345678", b"y" * chance.choice([50, 500])])

    key = b"key %d" % chance.randrange(4)
    name = chance.choice(
        ["SET"] * 8 + ["SETNX", "PUT", "PUT", "GET", "GET", "MGET", "MEXISTS", "DEL", "GETDEL", "LEN", "INCRBY", "RANGE", "RANGE"]
        + ["PREFIX", "COUNT", "DELRANGE", "POPMIN", "POPMAX"]
    )  # fmt: skip
    match name:
        case "SET":
            args = [part for _ in range(chance.choice([1, 1, 3, 10])) for part in (field(), value())]
        case "SETNX":
            args = [field(), value()]
        case "PUT":
            args = [field(), value(), *chance.choice([[], [b"NX"], [b"XX"]]), *chance.choice([[], [b"GET"]])]
        case "GET" | "GETDEL" | "PREFIX":
            args = [field()]
        case "MGET" | "MEXISTS" | "DEL":
            args = [field() for _ in range(chance.choice([1, 3, 100]))]
        case "LEN":
            args = []
        case "INCRBY":
            args = [b"number %d" % chance.randrange(3), b"%d" % chance.randrange(-5, 5)]
        case "RANGE":
            limit = [b"LIMIT", b"%d" % chance.randrange(5), b"%d" % chance.randrange(-1, 5)]
            args = [bound(), bound(), *chance.choice([[], [b"REV"]]), *chance.choice([[], limit])]
        case "COUNT":
            args = [bound(), bound()]
        case "DELRANGE":
            args = [bound(), bound(), b"LIMIT", b"%d" % chance.randrange(8)] if chance.random() < 0.9 else [bound(), bound()]
        case _:
            args = [b"%d" % chance.randrange(4)]
    return name, key, *args


def plain(reply, protocol):
    if reply is True:
        return b"OK"
    if protocol == 3 and isinstance(reply, list) and reply and all(isinstance(part, list) for part in reply):
        return [part for pair in reply for part in pair]
    return reply


def test_random_commands_agree_with_the_model(shared):
    for protocol in (2, 3):
        client = shared.client(protocol=protocol)
        client.flushall()
        seed = random.randrange(2**32)
        print("seed", seed)
        chance, model = random.Random(seed), Model()
        for start in range(0, COMMANDS // 2, 500):
            commands = [command(chance) for _ in range(500)]
            pipe = client.pipeline(transaction=False)
            for name, *args in commands:
                pipe.execute_command("OMAP." + name, *args)
            for number, (reply, one) in enumerate(zip(pipe.execute(), commands)):
                wanted = model.run(*one)
                assert plain(reply, protocol) == wanted, f"seed {seed}, command {start + number}: {one}"
            if start % 5000 == 0:
                client.execute_command("DEBUG", "RELOAD")
            assert client.dbsize() == len(model.maps)
        for key, entries in model.maps.items():
            assert mapping(client.execute_command("OMAP.GETALL", key)) == entries


def test_nonsense_crashes_nothing(shared):
    """Known commands with arguments of all kinds: an answer or an error, and the server goes on."""
    from test_commands import CALLS

    client = shared.client()
    client.flushall()
    client.set("text", "x")
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    words = [b"", b"-", b"+", b"[a", b"(a", b"a", b"0", b"1", b"-1", b"9223372036854775807", b"-4611686018427387904", b"1e400", b"nan", b"inf"]
    words += [b"LIMIT", b"REV", b"NOVALUES", b"NX", b"GET", b"GE", b"LT", b"MATCH", b"COUNT", b"[*", b"\\", b"*", b"WITHVALUES"]
    words += [b"x" * 65535, b"y" * 65536]
    for start in range(0, COMMANDS // 2, 500):
        pipe = client.pipeline(transaction=False)
        for _ in range(500):
            name = chance.choice(list(CALLS))
            args = [chance.choice(words) for _ in range(chance.randrange(6))]
            pipe.execute_command("OMAP." + name, chance.choice([b"m", b"n", b"text", b"none"]), *args)
        for reply in pipe.execute(raise_on_error=False):
            assert not isinstance(reply, redis.ResponseError) or "internal" not in str(reply)
    assert client.ping()
