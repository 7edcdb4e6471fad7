"""What survives: saving, loading, rewriting, replicas, copies, damage, and too little memory."""

import os
import pathlib
import random
import re
import time

import pytest
import redis

from test_commands import fill, mapping

# Payloads that are damaged, and random commands, of each kind; a long run sets them by hand.
PAYLOADS = int(os.environ.get("FANREAD_PAYLOADS", 1000))


def digest(client):
    return client.execute_command("DEBUG", "DIGEST")


def some_maps(client):
    """Maps of all encodings and kinds of values."""
    fill(client, "tiny", 1)
    fill(client, "small", 100)
    fill(client, "large", 5000)
    fill(client, "long", 40, b"%d" + b"x" * 1000)
    fill(client, "edge", 128)
    fill(client, "over", 129)
    client.execute_command("OMAP.SET", "bytes", b"", b"", b"\0", b"\xff" * 7, b"\xff\xfe", b"12345678", b"x" * 65535, b"y" * 10**6)
    # Large for what it has, until it is loaded.
    fill(client, "shrunk", 200)
    client.execute_command("OMAP.POPMAX", "shrunk", 195)
    client.expire("small", 10_000)
    return digest(client)


def test_a_reload_keeps_all(server_of):
    server = server_of()
    client = server.client()
    before = some_maps(client)
    sizes = {key: client.memory_usage(key) for key in client.keys()}
    client.execute_command("DEBUG", "RELOAD")
    assert digest(client) == before
    assert mapping(client.execute_command("OMAP.INFO", "small"))[b"encoding"] == b"packed"
    assert mapping(client.execute_command("OMAP.INFO", "large"))[b"encoding"] == b"ordered-map"
    for key, size in sizes.items():
        assert client.memory_usage(key) < 1.5 * size + 10_000


def test_a_restart_from_a_saved_file_keeps_all(server_of):
    server = server_of()
    before = some_maps(server.client())
    server.client().bgsave()
    while server.client().info("persistence")["rdb_bgsave_in_progress"]:
        time.sleep(0.02)
    server.kill()
    server.restart()
    assert digest(server.client()) == before


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_a_rewritten_file_of_commands_keeps_all(server_of, preamble):
    options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]
    server = server_of(*options)
    client = server.client()
    some_maps(client)
    client.bgrewriteaof()
    # While that is written, more comes.
    client.execute_command("OMAP.POPMAX", "large", 10)
    client.execute_command("OMAP.INCRBYFLOAT", "small", "new", "0.1")
    while (info := client.info("persistence"))["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]:
        time.sleep(0.02)
    client.execute_command("OMAP.DELRANGE", "large", "-", "[0000100")
    before = digest(client)
    if preamble == "no":
        commands = b"".join(path.read_bytes() for path in (server.folder / "appendonlydir").glob("*.base.*"))
        assert commands.count(b"OMAP.SET") > 5000 // 64
    server.restart()
    assert digest(server.client()) == before


def test_what_was_acknowledged_survives_a_kill(server_of):
    server = server_of("--appendonly", "yes", "--appendfsync", "always")
    client = server.client()
    some_maps(client)
    for number in range(200):
        client.execute_command("OMAP.INCRBYFLOAT", "large", b"%d" % (number % 7), "0.1")
        client.execute_command("OMAP.PUT", "large", b"p%d" % number, "x", "NX")
        if number % 3 == 0:
            client.execute_command("OMAP.POPMIN", "large", 2)
    before = digest(client)
    server.kill()
    server.restart()
    assert digest(server.client()) == before


def wait_for(check, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.parametrize("load", ["disabled", "swapdb"])
def test_replicas_have_the_same(server_of, load):
    master = server_of()
    client = master.client()
    some_maps(client)
    replica = server_of("--replicaof", f"127.0.0.1 {master.port}", "--repl-diskless-load", load)
    copy = replica.client()
    wait_for(lambda: copy.info("replication")["master_link_status"] == "up", "the link")
    for number in range(300):
        client.execute_command("OMAP.SET", "stream", b"%d" % (number % 150), number)
        client.execute_command("OMAP.INCRBYFLOAT", "stream", "f", "0.1")
        client.execute_command("OMAP.GETDEL", "stream", b"%d" % (number % 11))
    client.execute_command("OMAP.DELRANGE", "large", "-", "+", "LIMIT", 77)
    client.execute_command("OMAP.POPMAX", "tiny", 77)
    # From a script and in a transaction, too.
    script = "redis.call('OMAP.INCRBYFLOAT', KEYS[1], 'f', '0.1'); return redis.call('OMAP.POPMIN', KEYS[1], 3)"
    client.eval(script, 1, "stream")
    with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("OMAP.PUT", "edge", "a", "1", "NX", "GET")
        pipe.execute_command("OMAP.POPMAX", "edge", 2)
        pipe.execute_command("OMAP.DELRANGE", "over", "-", "+")
        pipe.execute()
    assert client.wait(1, 30_000) == 1
    wait_for(lambda: digest(copy) == digest(client), "the same digest")
    with pytest.raises(redis.ReadOnlyError):
        copy.execute_command("OMAP.SET", "x", "a", "1")
    # The link breaks and goes on where it was.
    full = client.info("stats")["sync_full"]
    client.execute_command("CLIENT", "KILL", "TYPE", "replica")
    client.execute_command("OMAP.SET", "stream", "after", "the break")
    wait_for(lambda: digest(copy) == digest(client), "the same digest after a partial resync")
    assert client.info("stats")["sync_full"] == full
    assert client.info("stats")["sync_partial_ok"] >= 1


def test_copies_are_maps_of_their_own(shared):
    client = shared.client()
    client.flushall()
    some_maps(client)
    for key in client.keys():
        client.copy(key, b"copy of " + key)
        assert client.execute_command("DEBUG", "DIGEST-VALUE", key) == client.execute_command("DEBUG", "DIGEST-VALUE", b"copy of " + key)
    client.execute_command("OMAP.DELRANGE", "large", "-", "+")
    assert client.execute_command("OMAP.LEN", "copy of large") == 5000
    client.execute_command("OMAP.SET", "copy of small", "0000001", "changed")
    assert client.execute_command("OMAP.GET", "small", "0000001") == b"v1"


def test_a_dump_is_restored(shared):
    client = shared.client()
    client.flushall()
    some_maps(client)
    for key in client.keys():
        client.persist(key)
        client.restore("restored", 0, client.dump(key), replace=True)
        assert client.execute_command("DEBUG", "DIGEST-VALUE", key) == client.execute_command("DEBUG", "DIGEST-VALUE", "restored")


# Version 1 as it was first written: numbers and strings in all of the server's forms (docs/formats/module.md).
VERSION_1 = bytes.fromhex(
    "0781a266a9fadade780102040500050005016105c00105017a05c30928017979e01b000179790501ff05c24e61bc00000a0037b495b85a8ee8cf"
)
VERSION_1_ENTRIES = {b"": b"", b"a": b"1", b"z": b"y" * 40, b"\xff": b"12345678"}


def test_what_the_first_version_saved_is_loaded(shared):
    client = shared.client()
    client.restore("golden", 0, VERSION_1, replace=True)
    assert mapping(client.execute_command("OMAP.GETALL", "golden")) == VERSION_1_ENTRIES
    # The last ten bytes are the server's: which version of its files this is, and a checksum.
    assert client.dump("golden")[:-10] == VERSION_1[:-10]


@pytest.mark.parametrize("sanitize", ["no", "yes"])
def test_damaged_payloads_crash_nothing(server_of, sanitize):
    server = server_of("--sanitize-dump-payload", sanitize)
    client = server.client()
    # The server's own guard is switched off: ours is what is tested.
    client.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1)
    fill(client, "small", 12)
    fill(client, "large", 140)
    client.execute_command("OMAP.SET", "bytes", b"", b"", b"\0", b"\xff" * 7, b"\xff\xfe", b"1" * 300)
    payloads = [client.dump(key) for key in ("small", "large", "bytes")]
    client.flushall()
    client.memory_purge()
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    used = None
    taken = 0
    for number in range(PAYLOADS):
        payload = bytearray(chance.choice(payloads))
        for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
            # The last ten bytes are the version and the checksum, the first ten the type.
            at = chance.randrange(1 if chance.random() < 0.05 else 10, len(payload) - 10)
            match chance.randrange(5):
                case 0:
                    payload[at] ^= 1 << chance.randrange(8)
                case 1:
                    payload[at] = chance.choice([0, 1, 0x40, 0x7F, 0x80, 0x81, 0xC0, 0xC3, 0xFF])
                case 2:
                    del payload[at : at + chance.randrange(1, 20)]
                    payload += bytes(max(0, 12 - len(payload)))
                case 3:
                    payload[at:at] = payload[at : at + chance.randrange(1, 20)]
                case 4:
                    payload[at:at] = chance.randbytes(chance.randrange(1, 9))
            if len(payload) < 22:
                break
        try:
            client.restore("m", 0, bytes(payload), replace=True)
            taken += 1
        except redis.ResponseError as error:
            assert "Bad data format" in str(error) or "DUMP payload" in str(error), error
            continue
        # What is taken is a map, or something else that the server knows.
        if client.type("m") == b"omap-tree":
            fields = client.execute_command("OMAP.KEYS", "m")
            assert fields == sorted(set(fields)) and len(fields) == client.execute_command("OMAP.LEN", "m") > 0
            client.execute_command("OMAP.SET", "m", "a", "b")
            client.execute_command("OMAP.DELRANGE", "m", "-", "+")
        else:
            client.delete("m")
        if used is None:
            used = client.info("memory")["used_memory"]
    client.flushall()
    assert taken < PAYLOADS
    assert client.info("memory")["used_memory"] < (used or 2**63) + 1_000_000, "nothing leaks"


def test_too_little_memory_is_an_error_and_loses_nothing(server_of):
    server = server_of("--maxmemory-policy", "noeviction")
    client = server.client()
    fill(client, "m", 3000)
    limit = client.info("memory")["used_memory"] + 1_000_000
    client.config_set("maxmemory", limit)
    written = 0
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        for number in range(100_000):
            client.execute_command("OMAP.SET", "m", b"more %d" % number, b"x" * 1000)
            written += 1
    assert 100 < written < 5000
    client.config_set("maxmemory", 1)
    do = client.execute_command
    for command in [["SET", "f", "v"], ["PUT", "f", "v"], ["SETNX", "f", "v"], ["INCRBY", "f", 1], ["INCRBYFLOAT", "f", 1]]:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            do("OMAP." + command[0], "m", *command[1:])
    assert do("OMAP.LEN", "m") == 3000 + written
    assert do("OMAP.GET", "m", b"more %d" % (written - 1)) == b"x" * 1000
    assert do("OMAP.DELRANGE", "m", "[more", "+") == written
    client.config_set("maxmemory", 0)
    assert do("OMAP.SET", "m", "f", "v") == 1


def test_what_was_set_before_memory_ran_out_is_told_alone(server_of):
    from conftest import MODULE

    master = server_of("--appendonly", "yes", module=(MODULE, "test-panic"))
    client = master.client()
    replica = server_of("--replicaof", f"127.0.0.1 {master.port}")
    wait_for(lambda: replica.client().info("replication")["master_link_status"] == "up", "the link")
    client.execute_command("OMAP.TESTSCARCE")
    client.execute_command("OMAP.SET", "there", "a", "0")
    for key in ["new", "there"]:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.execute_command("OMAP.SET", key, "a", "1", "b", "2", "long", b"x" * (2 << 20), "c", "3")
        assert mapping(client.execute_command("OMAP.GETALL", key)) == {b"a": b"1", b"b": b"2"}
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        client.execute_command("OMAP.SET", "none", "long", b"x" * (2 << 20), "c", "3")
    assert not client.exists("none")
    assert client.wait(1, 30_000) == 1
    before = digest(client)
    assert digest(replica.client()) == before
    client.execute_command("DEBUG", "LOADAOF")
    assert digest(client) == before


def mapped(server):
    """Bytes of the server's anonymous memory that is in use."""
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+) kB$", text, re.M)[1]) << 10


def test_memory_comes_back(shared):
    client = shared.client()
    client.flushall()
    client.memory_purge()
    before, mapped_before = client.info("memory")["used_memory"], mapped(shared)
    for _ in range(3):
        some_maps(client)
        for _ in range(20):
            client.execute_command("OMAP.SET", "large", "again", "x" * 100_000)
            client.copy("large", "copy", replace=True)
        client.execute_command("OMAP.DELRANGE", "large", "-", "+")
        client.unlink("copy")
        client.flushall()
    wait_for(lambda: client.info("memory")["used_memory"] < before + 500_000, "memory back", 20)
    # Nor does it stay with the process.
    wait_for(lambda: client.memory_purge() and mapped(shared) < mapped_before + (16 << 20), "mappings back", 20)


def test_memory_usage_of_small_maps_agrees_with_the_server(shared):
    client = shared.client()
    client.execute_command("FLUSHALL", "SYNC")  # Valkey frees in the background.
    before = client.info("memory")["used_memory"]
    count = 2000
    for number in range(count):
        fill(client, "map %05d" % number, 10, b"value %d")
    taken = client.info("memory")["used_memory"] - before
    counted = sum(client.memory_usage("map %05d" % number) for number in range(count))
    assert 0.9 < counted / taken < 1.1, (counted, taken)
    client.execute_command("FLUSHALL", "SYNC")
    before = client.info("memory")["used_memory"]
    for number in range(count):
        client.hset("map %05d" % number, mapping={b"%07d" % entry: b"value %d" % entry for entry in range(10)})
    hashes = client.info("memory")["used_memory"] - before
    assert taken < 1.5 * hashes, (taken, hashes)


# Many: what the server gives back late of what came before, some hundred kilobytes, is to make no difference.
@pytest.mark.parametrize("entries", [100_000, 200_000])
def test_memory_of_an_index_is_seen_by_the_server(shared, entries):
    client = shared.client()
    client.flushall()
    before = client.info("memory")["used_memory"]
    fill(client, "large", entries, b"%d")
    taken, counted = client.info("memory")["used_memory"] - before, client.memory_usage("large")
    assert taken > 20 * entries and 0.8 < counted / taken < 1.2, (counted, taken)
    client.flushall()


def test_a_panic_is_an_error_and_no_more(server_of):
    from conftest import MODULE

    server = server_of(module=(MODULE, "test-panic"))
    client = server.client()
    fill(client, "m", 200)
    for _ in range(3):
        with pytest.raises(redis.ResponseError, match="internal error"):
            client.execute_command("OMAP.TESTPANIC")
    assert client.execute_command("OMAP.LEN", "m") == 200
    assert server.log().count("as the test wants it") == 3


def saved(client, ask):
    """Has the server save in a child, and tells what it says of how that ended."""
    ask()
    while True:
        info = client.info("persistence")
        if not (info["rdb_bgsave_in_progress"] or info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
            return info
        time.sleep(0.02)


def unfinished(server):
    """Files that a save has begun and not ended."""
    return [path.name for path in server.folder.rglob("temp*")]


def test_a_save_that_panics_has_failed_and_the_old_file_stays(server_of):
    from conftest import MODULE

    server = server_of(module=(MODULE, "test-panic"))
    client = server.client()
    before = some_maps(client)
    assert saved(client, client.bgsave)["rdb_last_bgsave_status"] == "ok"
    old = (server.folder / "dump.rdb").read_bytes()
    client.execute_command("OMAP.SET", "later", "field", "value")
    client.execute_command("OMAP.TESTPANICSAVES")
    assert saved(client, client.bgsave)["rdb_last_bgsave_status"] == "err"
    # The server itself, too, which lives on.
    with pytest.raises(redis.ResponseError):
        client.save()
    assert client.execute_command("OMAP.GET", "later", "field") == b"value"
    assert (server.folder / "dump.rdb").read_bytes() == old and not unfinished(server)
    assert "the save is given up" in server.log()
    server.kill()
    server.restart()
    assert digest(server.client()) == before


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_a_rewrite_that_panics_has_failed_and_the_old_files_stay(server_of, preamble):
    from conftest import MODULE

    options = ("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble)
    server = server_of(*options, module=(MODULE, "test-panic"))
    client = server.client()
    some_maps(client)
    assert saved(client, client.bgrewriteaof)["aof_last_bgrewrite_status"] == "ok"
    client.execute_command("OMAP.TESTPANICSAVES")
    assert saved(client, client.bgrewriteaof)["aof_last_bgrewrite_status"] == "err"
    assert not unfinished(server) and "the save is given up" in server.log()
    client.execute_command("OMAP.SET", "later", "field", "value")
    before = digest(client)
    server.kill()
    server.restart()
    assert digest(server.client()) == before
