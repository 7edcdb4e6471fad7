"""Every command: what it takes, replies, and refuses, with both protocols."""

import time

import pytest
import redis

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
LARGE = 300  # entries from which on a map is surely large


def pairs(client, reply):
    """A list of entries, from either protocol's form."""
    if client.protocol == 3:
        assert all(isinstance(pair, list) and len(pair) == 2 for pair in reply), reply
        return [tuple(pair) for pair in reply]
    assert len(reply) % 2 == 0
    return list(zip(reply[::2], reply[1::2]))


def mapping(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def raw(client, *command):
    """A reply as it came."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command(*command)
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def fill(client, key, count, value=b"v%d"):
    pipe = client.pipeline(transaction=False)
    for start in range(0, count, 1000):
        entries = []
        for number in range(start, min(count, start + 1000)):
            entries += [b"%07d" % number, value % number]
        pipe.execute_command("OMAP.SET", key, *entries)
    pipe.execute()


def fails(client, text, *command):
    with pytest.raises(redis.ResponseError) as caught:
        client.execute_command(*command)
    # The client takes a leading "ERR " away.
    assert str(caught.value) == text.removeprefix("ERR "), command


@pytest.fixture(params=[5, LARGE], ids=["small", "large"])
def size(request):
    return request.param


def test_set_counts_new_fields(client):
    do = client.execute_command
    assert do("OMAP.SET", "m", "a", "1", "b", "2", "a", "3") == 2
    assert do("OMAP.SET", "m", "a", "4", "c", "5") == 1
    assert mapping(do("OMAP.GETALL", "m")) == {b"a": b"4", b"b": b"2", b"c": b"5"}
    assert client.type("m") == b"omap-tree"


def test_getall_is_what_hgetall_is(client):
    client.hset("h", mapping={"a": "1"})
    client.execute_command("OMAP.SET", "m", "a", "1")
    if client.protocol == 3:
        assert client.execute_command("OMAP.GETALL", "m") == {b"a": b"1"}
        assert client.execute_command("OMAP.GETALL", "none") == {}
    else:
        assert client.execute_command("OMAP.GETALL", "m") == [b"a", b"1"]
        assert client.execute_command("OMAP.GETALL", "none") == []


def test_fields_and_values_are_any_bytes(client):
    do = client.execute_command
    fields = [b"", b"\0", b"\0\0", b"\r\n", b"\xff", b"\xff\xff", "\N{SNOWMAN}".encode(), b"x" * 65535]
    for field in fields:
        for value in [b"", b"\0", b"1234567", b"12345678", b"\xff" * 5000]:
            do("OMAP.SET", "m", field, value)
            assert do("OMAP.GET", "m", field) == value
            assert do("OMAP.STRLEN", "m", field) == len(value)
    assert do("OMAP.KEYS", "m") == sorted(fields)
    fails(client, "ERR field is longer than 65535 bytes", "OMAP.SET", "m", "ok", "1", b"x" * 65536, "1")
    assert do("OMAP.EXISTS", "m", "ok") == 0
    assert do("OMAP.EXISTS", "m", b"x" * 65536) == 0
    assert do("OMAP.DEL", "m", b"x" * 65536) == 0


def test_points(client, size):
    do = client.execute_command
    fill(client, "m", size)
    assert do("OMAP.INFO", "m")
    assert mapping(do("OMAP.INFO", "m"))[b"encoding"] == (b"packed" if size < LARGE else b"ordered-map")
    assert do("OMAP.LEN", "m") == size
    assert do("OMAP.GET", "m", "0000003") == b"v3"
    assert do("OMAP.GET", "m", "x") is None
    assert do("OMAP.EXISTS", "m", "0000003") == 1
    assert do("OMAP.EXISTS", "m", "x") == 0
    assert do("OMAP.MGET", "m", "0000003", "x", "0000000", "0000003") == [b"v3", None, b"v0", b"v3"]
    assert do("OMAP.MEXISTS", "m", "0000003", "x", "0000000") == [1, 0, 1]
    assert do("OMAP.STRLEN", "m", "0000003") == 2
    assert do("OMAP.SETNX", "m", "0000003", "no") == 0
    assert do("OMAP.SETNX", "m", "x", "yes") == 1
    assert do("OMAP.GETDEL", "m", "x") == b"yes"
    assert do("OMAP.GETDEL", "m", "x") is None
    assert do("OMAP.DEL", "m", "0000003", "x", "0000003", "0000000") == 2
    assert do("OMAP.LEN", "m") == size - 2
    assert do("OMAP.VALS", "m") == [b"v%d" % number for number in range(size) if number not in (0, 3)]
    assert do("OMAP.KEYS", "m") == [b"%07d" % number for number in range(size) if number not in (0, 3)]


def test_many_fields_at_once(client):
    fill(client, "m", 1000)
    fields = [b"%07d" % (number * 3) for number in range(1000)]
    values = client.execute_command("OMAP.MGET", "m", *fields)
    assert values == [b"v%d" % (number * 3) if number * 3 < 1000 else None for number in range(1000)]


def test_put_conditions(client):
    do = client.execute_command
    assert do("OMAP.PUT", "m", "a", "1", "XX") is None
    assert client.exists("m") == 0
    assert do("OMAP.PUT", "m", "a", "1", "nx") in (b"OK", True)
    assert do("OMAP.PUT", "m", "a", "2", "NX") is None
    assert do("OMAP.PUT", "m", "a", "2", "NX", "GET") == b"1"
    assert do("OMAP.PUT", "m", "a", "2", "XX", "GET") == b"1"
    assert do("OMAP.PUT", "m", "b", "3", "GET") is None
    assert do("OMAP.PUT", "m", "a", "4") in (b"OK", True)
    assert do("OMAP.VALS", "m") == [b"4", b"3"]
    fails(client, "ERR syntax error", "OMAP.PUT", "m", "a", "1", "NX", "XX")
    fails(client, "ERR syntax error", "OMAP.PUT", "m", "a", "1", "EX")


def test_increments(client):
    do = client.execute_command
    assert do("OMAP.INCRBY", "m", "a", 5) == 5
    assert do("OMAP.INCRBY", "m", "a", -7) == -2
    do("OMAP.SET", "m", "max", 2**63 - 1, "text", "abc", "space", " 1")
    fails(client, "ERR increment or decrement would overflow", "OMAP.INCRBY", "m", "max", 1)
    fails(client, "ERR map value is not an integer", "OMAP.INCRBY", "m", "text", 1)
    fails(client, "ERR map value is not an integer", "OMAP.INCRBY", "m", "space", 1)
    for bad in ["", "1.0", "x", " 1", 2**63, "+1"]:
        fails(client, "ERR value is not an integer or out of range", "OMAP.INCRBY", "m", "a", bad)
    assert do("OMAP.GET", "m", "max") == b"%d" % (2**63 - 1)
    assert do("OMAP.INCRBYFLOAT", "m", "f", "0.1") == b"0.1"
    assert do("OMAP.INCRBYFLOAT", "m", "f", "0.2") == b"0.3"
    assert do("OMAP.GET", "m", "f") == b"0.3"
    for bad in ["", "nan", "x", "1 "]:
        fails(client, "ERR value is not a valid float", "OMAP.INCRBYFLOAT", "m", "f", bad)
    for bad in ["inf", "-inf"]:
        fails(client, "ERR value is NaN or Infinity", "OMAP.INCRBYFLOAT", "m", "f", bad)
    fails(client, "ERR map value is not a float", "OMAP.INCRBYFLOAT", "m", "text", 1)
    fails(client, "ERR map value is not an integer", "OMAP.INCRBY", "m", "f", 1)


@pytest.mark.parametrize("steps", [["0.1", "0.2"], ["10.50", "0.1", "-5"], ["5.0e3", "200"], ["3", "-3"], ["-0.25", "1e-3"], ["10.1", "1e-18", "0.0033333333333333335"]])
def test_float_increments_are_those_of_hashes(client, steps):
    for step in steps:
        wanted = client.execute_command("HINCRBYFLOAT", "h", "f", step)
        got = client.execute_command("OMAP.INCRBYFLOAT", "m", "f", step)
        assert float(got) == float(wanted) and client.execute_command("OMAP.GET", "m", "f") == client.hget("h", "f")


def test_range_is_that_of_sorted_sets(client, size):
    do = client.execute_command
    fill(client, "m", size)
    client.zadd("z", {b"%07d" % number: 0 for number in range(size)})
    bounds = ["-", "+", "[0000002", "(0000002", "[0000003x", "[", "(", "[x", b"(\xff"]
    for low in bounds:
        for high in bounds:
            for limit in [[], ["LIMIT", 0, -1], ["LIMIT", 1, 2], ["LIMIT", 0, 0], ["LIMIT", -1, 5], ["LIMIT", 10**9, 1], ["LIMIT", 2, 10**9]]:
                for order in [[], ["REV"]]:
                    # With an offset below zero Valkey's large sorted sets return what its small ones, and Redis, do not.
                    wanted = [] if limit[1:2] == [-1] else do("ZRANGE", "z", low, high, "BYLEX", *order, *limit)
                    got = do("OMAP.RANGE", "m", low, high, *order, *limit, "NOVALUES")
                    assert got == wanted, (low, high, limit, order)
                    got = pairs(client, do("OMAP.RANGE", "m", low, high, *limit, *order))
                    assert got == [(field, b"v%d" % int(field)) for field in wanted]
            assert do("OMAP.COUNT", "m", low, high) == do("ZLEXCOUNT", "z", low, high)


def test_prefix(client):
    do = client.execute_command
    fields = [b"", b"a", b"aa", b"ab", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"]
    do("OMAP.SET", "m", *[part for field in fields for part in (field, b"=" + field)])
    for prefix in [b"", b"a", b"a\xff", b"\xff", b"c"]:
        wanted = sorted(field for field in fields if field.startswith(prefix))
        assert pairs(client, do("OMAP.PREFIX", "m", prefix)) == [(field, b"=" + field) for field in wanted]
        assert do("OMAP.PREFIX", "m", prefix, "REV", "NOVALUES", "LIMIT", 1, 2) == wanted[::-1][1:3]


def test_seek(client, size):
    do = client.execute_command
    fill(client, "m", size)
    last = b"%07d" % (size - 1)
    for how, field, wanted in [
        ("GE", "0000002", b"0000002"),
        ("gt", "0000002", b"0000003"),
        ("LE", "0000002", b"0000002"),
        ("LT", "0000002", b"0000001"),
        ("GE", "", b"0000000"),
        ("LE", "x", last),
    ]:
        assert do("OMAP.SEEK", "m", how, field) == [wanted, b"v%d" % int(wanted)]
    assert do("OMAP.SEEK", "m", "GT", last) is None
    assert do("OMAP.SEEK", "m", "LT", "0000000") is None
    assert do("OMAP.SEEK", "none", "GE", "") is None
    fails(client, "ERR syntax error", "OMAP.SEEK", "m", "EQ", "a")


def test_ends(client, size):
    do = client.execute_command
    fill(client, "m", size)
    all_entries = [(b"%07d" % number, b"v%d" % number) for number in range(size)]
    assert do("OMAP.FIRST", "m") == list(all_entries[0])
    assert do("OMAP.LAST", "m") == list(all_entries[-1])
    assert pairs(client, do("OMAP.FIRST", "m", 3)) == all_entries[:3]
    assert pairs(client, do("OMAP.LAST", "m", 10**9)) == all_entries[::-1]
    assert do("OMAP.FIRST", "m", 0) == []
    assert do("OMAP.FIRST", "none") == do("OMAP.LAST", "none", 5) == []
    assert do("OMAP.POPMIN", "m") == list(all_entries[0])
    assert do("OMAP.POPMAX", "m") == list(all_entries[-1])
    assert pairs(client, do("OMAP.POPMIN", "m", 2)) == all_entries[1:3]
    assert do("OMAP.POPMIN", "m", 0) == []
    assert do("OMAP.LEN", "m") == size - 4
    assert pairs(client, do("OMAP.POPMAX", "m", 10**9)) == all_entries[3:-1][::-1]
    assert client.exists("m") == 0
    assert do("OMAP.POPMIN", "m") == do("OMAP.POPMAX", "m", 5) == []
    for name in ["FIRST", "LAST", "POPMIN", "POPMAX"]:
        fails(client, "ERR value is out of range, must be positive", "OMAP." + name, "m", -1)
        fails(client, "ERR value is not an integer or out of range", "OMAP." + name, "m", "x")
        fails(client, "ERR syntax error", "OMAP." + name, "m", 1, 2)


def test_the_form_of_popped_entries_is_that_of_zpopmin(client):
    client.zadd("z", {"a": 1, "b": 2, "c": 3})
    client.execute_command("OMAP.SET", "m", "a", 1, "b", 2, "c", 3)

    def form(reply):
        return [form(part) for part in reply] if isinstance(reply, list) else "leaf"

    assert form(raw(client, "OMAP.POPMIN", "m")) == form(raw(client, "ZPOPMIN", "z"))
    assert form(raw(client, "OMAP.POPMIN", "m", 2)) == form(raw(client, "ZPOPMIN", "z", 2))


def test_delrange(client, size):
    do = client.execute_command
    fill(client, "m", size)
    assert do("OMAP.DELRANGE", "m", "[0000001", "(0000003") == 2
    assert do("OMAP.DELRANGE", "m", "-", "+", "LIMIT", 2) == 2
    assert do("OMAP.DELRANGE", "m", "-", "+", "LIMIT", 0) == 0
    assert do("OMAP.KEYS", "m") == [b"%07d" % number for number in range(4, size)]
    assert do("OMAP.DELRANGE", "m", "+", "-") == 0
    assert do("OMAP.DELRANGE", "m", "-", "+") == size - 4
    assert client.exists("m") == 0
    assert do("OMAP.DELRANGE", "m", "-", "+") == 0
    fails(client, "ERR min or max not valid string range item", "OMAP.DELRANGE", "m", "a", "+")
    fails(client, "ERR value is out of range, must be positive", "OMAP.DELRANGE", "m", "-", "+", "LIMIT", -1)
    fails(client, "ERR syntax error", "OMAP.DELRANGE", "m", "-", "+", "LIMIT")
    fails(client, "ERR syntax error", "OMAP.DELRANGE", "m", "-", "+", "REV")


def test_random_fields(client, size):
    do = client.execute_command
    assert do("OMAP.RANDFIELD", "none") is None
    assert do("OMAP.RANDFIELD", "none", 5) == []
    fill(client, "m", size)
    fields = set(do("OMAP.KEYS", "m"))
    assert {do("OMAP.RANDFIELD", "m") for _ in range(400)} <= fields
    assert len({do("OMAP.RANDFIELD", "m") for _ in range(100)}) > 3
    some = do("OMAP.RANDFIELD", "m", 3)
    assert len(some) == len(set(some)) == 3 and set(some) <= fields
    assert set(do("OMAP.RANDFIELD", "m", 10**9)) == fields
    any_fields = do("OMAP.RANDFIELD", "m", -40000)
    assert len(any_fields) == 40000 and set(any_fields) == fields
    for field, value in pairs(client, do("OMAP.RANDFIELD", "m", -10, "WITHVALUES")):
        assert value == b"v%d" % int(field)
    assert len(pairs(client, do("OMAP.RANDFIELD", "m", 3, "WITHVALUES"))) == 3
    assert do("OMAP.RANDFIELD", "m", 0) == []
    for count in [-(2**20) - 1, -(10**11), -(2**63)]:
        fails(client, "ERR value is out of range", "OMAP.RANDFIELD", "m", count)
        fails(client, "ERR value is out of range", "OMAP.RANDFIELD", "m", count, "WITHVALUES")
    fails(client, "ERR syntax error", "OMAP.RANDFIELD", "m", 1, "X")


def test_a_scan_shows_each_entry_once(client, size):
    do = client.execute_command
    fill(client, "m", size)
    for options in [[], ["COUNT", 1], ["COUNT", 7], ["COUNT", 10**6]]:
        seen, cursor, removed = [], b"0", 0
        while True:
            cursor, found = do("OMAP.SCAN", "m", cursor, *options)
            seen += found[::2]
            assert found[1::2] == [b"v%d" % int(field) for field in found[::2]]
            if cursor == b"0":
                break
            # What comes and goes behind the cursor changes nothing.
            do("OMAP.SET", "m", b"!%d" % removed, "x")
            removed += 1
        assert seen == [b"%07d" % number for number in range(size)]
        do("OMAP.DELRANGE", "m", "[!", "(0")
    seen, cursor = [], "0"
    while True:
        cursor, found = do("OMAP.SCAN", "m", cursor, "MATCH", "*[02]", "COUNT", 3)
        seen += found[::2]
        if cursor == b"0":
            break
    assert seen == [b"%07d" % number for number in range(size) if number % 10 in (0, 2)]
    assert do("OMAP.SCAN", "none", "0") == [b"0", []]
    fails(client, "ERR invalid cursor", "OMAP.SCAN", "m", "x")
    fails(client, "ERR syntax error", "OMAP.SCAN", "m", "0", "COUNT")
    fails(client, "ERR syntax error", "OMAP.SCAN", "m", "0", "COUNT", 0)
    fails(client, "ERR syntax error", "OMAP.SCAN", "m", "0", "TYPE", "x")
    fails(client, "ERR value is not an integer or out of range", "OMAP.SCAN", "m", "0", "COUNT", "x")


# A call of each command that it takes, on a key that is given.
CALLS = {
    "SET": ["f", "v"], "PUT": ["f", "v"], "SETNX": ["f", "v"], "GET": ["f"], "MGET": ["f"], "EXISTS": ["f"], "MEXISTS": ["f"],
    "STRLEN": ["f"], "LEN": [], "DEL": ["f"], "GETDEL": ["f"], "INCRBY": ["f", 1], "INCRBYFLOAT": ["f", 1], "RANGE": ["-", "+"],
    "PREFIX": [""], "SEEK": ["GE", ""], "FIRST": [], "LAST": [], "POPMIN": [], "POPMAX": [], "COUNT": ["-", "+"],
    "DELRANGE": ["-", "+"], "RANDFIELD": [], "SCAN": ["0"], "GETALL": [], "KEYS": [], "VALS": [], "INFO": [],
}  # fmt: skip
WRITES = {"SET", "PUT", "SETNX", "DEL", "GETDEL", "INCRBY", "INCRBYFLOAT", "POPMIN", "POPMAX", "DELRANGE"}


def test_every_command_is_here(client):
    listed = raw(client, "COMMAND", "LIST", "FILTERBY", "MODULE", "fanread")
    assert {name.decode().lower() for name in listed} == {"omap." + name.lower() for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_a_command_refuses_other_types_and_arities(client, name):
    client.set("text", "x")
    client.hset("hash", "f", "v")
    for key in ["text", "hash"]:
        fails(client, WRONG_TYPE, "OMAP." + name, key, *CALLS[name])
    arity = f"ERR wrong number of arguments for 'omap.{name.lower()}' command"
    fails(client, arity, "OMAP." + name)
    if CALLS[name]:
        fails(client, arity, "OMAP." + name, "key", *CALLS[name][:-1])
    if name == "SET":
        fails(client, arity, "OMAP.SET", "key", "f", "v", "g")
    assert client.get("text") == b"x"
    assert client.exists("key") == 0


@pytest.mark.parametrize("name", CALLS)
def test_a_command_reads_a_missing_key_as_empty(client, name):
    client.execute_command("OMAP." + name, "none", *CALLS[name])
    assert client.exists("none") == (name in {"SET", "PUT", "SETNX", "INCRBY", "INCRBYFLOAT"})


@pytest.mark.parametrize("name", CALLS)
def test_the_server_knows_what_a_command_does(client, name):
    keys = raw(client, "COMMAND", "GETKEYS", "OMAP." + name, "key", *CALLS[name])
    assert keys == [b"key"]
    flags = {flag.decode() for flag in raw(client, "COMMAND", "INFO", "OMAP." + name)[0][2]}
    docs = mapping(mapping(raw(client, "COMMAND", "DOCS", "OMAP." + name))[b"omap." + name.lower().encode()])
    assert ("write" in flags) == (name in WRITES) and ("readonly" in flags) == (name not in WRITES)
    assert ("denyoom" in flags) == (name in {"SET", "PUT", "SETNX", "INCRBY", "INCRBYFLOAT"})
    assert docs[b"summary"] and docs[b"complexity"] and docs[b"module"] == b"fanread"


def test_a_key_goes_with_its_last_entry(client):
    do = client.execute_command
    for command in [["DEL", "f"], ["GETDEL", "f"], ["POPMIN"], ["POPMAX", 9], ["DELRANGE", "-", "+"]]:
        do("OMAP.SET", "m", "f", "v")
        do("OMAP." + command[0], "m", *command[1:])
        assert client.exists("m") == 0, command
        assert client.dbsize() == 0


def test_listeners_are_told(client, shared):
    client.config_set("notify-keyspace-events", "KEA")
    listener = shared.client().pubsub()
    listener.psubscribe("__keyspace@0__:m")
    listener.get_message(timeout=5)
    do = client.execute_command
    do("OMAP.SET", "m", "a", "1")
    do("OMAP.DEL", "m", "none")
    do("OMAP.INCRBY", "m", "a", 1)
    do("OMAP.PUT", "m", "a", 1, "NX")
    do("OMAP.POPMIN", "m")
    seen = []
    while len(seen) < 4 and (message := listener.get_message(timeout=5)):
        seen.append(message["data"])
    assert seen == [b"omap.set", b"omap.incrby", b"omap.popmin", b"del"]
    assert listener.get_message(timeout=0.05) is None
    listener.close()


def test_only_a_change_breaks_a_watch(client):
    client.execute_command("OMAP.SET", "m", "a", "1")
    for command, breaks in [
        (["OMAP.DEL", "m", "none"], False),
        (["OMAP.SETNX", "m", "a", "2"], False),
        (["OMAP.DELRANGE", "m", "[x", "+"], False),
        (["OMAP.SET", "m", "b", "2"], True),
        (["OMAP.GETDEL", "m", "b"], True),
    ]:
        with client.pipeline() as pipe:
            pipe.watch("m")
            client.execute_command(*command)
            pipe.multi()
            pipe.execute_command("OMAP.LEN", "m")
            if breaks:
                with pytest.raises(redis.WatchError):
                    pipe.execute()
            else:
                assert pipe.execute() == [1]


def test_scripts_and_transactions(client):
    script = "redis.call('OMAP.SET', KEYS[1], 'a', '1', 'b', '2'); return redis.call('OMAP.RANGE', KEYS[1], '-', '+')"
    assert client.eval(script, 1, "m") == [b"a", b"1", b"b", b"2"]
    with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("OMAP.SET", "m", "c", "3")
        pipe.execute_command("OMAP.LEN", "m")
        assert pipe.execute() == [1, 3]
    assert client.expire("m", 100) and client.ttl("m") > 0


def test_a_million_fields(shared):
    client = shared.client(protocol=3)
    client.flushall()
    count = 1_000_000
    fill(client, "m", count)
    do = client.execute_command
    assert do("OMAP.LEN", "m") == count
    assert do("OMAP.GET", "m", "0777777") == b"v777777"
    assert do("OMAP.RANGE", "m", "[0500000", "+", "LIMIT", 0, 2) == [[b"0500000", b"v500000"], [b"0500001", b"v500001"]]
    assert do("OMAP.COUNT", "m", "[0100000", "(0200000") == 100_000
    assert do("OMAP.DELRANGE", "m", "[0100000", "(0200000") == 100_000
    cursor, seen = b"0", 0
    while True:
        cursor, found = do("OMAP.SCAN", "m", cursor, "COUNT", 50_000)
        seen += len(found) // 2
        if cursor == b"0":
            break
    assert seen == count - 100_000
    start = time.monotonic()
    client.unlink("m")
    assert time.monotonic() - start < 5, "freed elsewhere"
    assert client.exists("m") == 0
