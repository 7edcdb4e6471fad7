"""How long single commands take on a key that grows to ten million entries and goes again, by the server's own clock.

    latency.py MODULE [--entries 10000000]

Fields have 20 bytes and values 100, as in bench.py. Times are those of the server's execution: the longest ones by SLOWLOG, all others by
INFO latencystats. While a key is deleted another connection asks for an entry of another one, one request at a time, and its
times have the way there and back in them.
"""

import argparse
import os
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from bench import END, encode, field, take_replies

STEP = 20_000


def send(port, requests):
    """Sends requests as they are made, and takes the replies unread but for errors."""
    with socket.create_connection(("127.0.0.1", port)) as server:

        def all_of_them():
            for part in requests:
                server.sendall(part)
            server.sendall(encode("ECHO", END))

        sender = threading.Thread(target=all_of_them)
        sender.start()
        take_replies(server)
        sender.join()


def steps(count, request):
    """Requests in pieces of a few megabytes."""
    for start in range(0, count, STEP):
        yield b"".join(request(number) for number in range(start, min(start + STEP, count)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--entries", type=int, default=10_000_000)
    args = parser.parse_args()
    os.environ["FANREAD_MODULE"] = args.module
    from conftest import Server

    server = Server("--slowlog-max-len", "100000", "--latency-tracking-info-percentiles", "50 99 99.9 99.99 99.999")
    client = server.client()

    def start():
        client.config_resetstat()
        client.slowlog_reset()
        client.config_set("slowlog-log-slower-than", 1000)

    def times(name):
        stats = client.info("latencystats").get(f"latency_percentiles_usec_{name.lower()}", {})
        slow = sorted((entry["duration"] for entry in client.slowlog_get(100_000) if entry["command"].upper().startswith(name.upper().encode())), reverse=True)
        shown = ", ".join(f"{key} {amount}" for key, amount in stats.items())
        longest = f"; over a millisecond: {len(slow)}, the longest {[duration / 1000 for duration in slow[:6]]} ms" if slow else "; none over a millisecond"
        return f"{shown} us{longest}"

    for side, (name, key) in {"hash": ("HSET", "h"), "omap": ("OMAP.SET", "m")}.items():
        start()
        begun = time.perf_counter()
        form = encode(name, key, b"x" * 20, b"y" * 100).replace(b"x" * 20, b"%b").replace(b"y" * 100, b"%0100d")
        send(server.port, steps(args.entries, lambda number: form % (field(number), number)))
        print(f"{side}: {name} of {args.entries} new fields in {time.perf_counter() - begun:.0f} s: {times(name)}", flush=True)

    for limit, count in ((100, 2000), (1000, 1000), (10_000, 100)):
        chance = random.Random(limit)
        start()
        send(server.port, steps(count, lambda _: encode("OMAP.DELRANGE", "m", b"[user%04x" % chance.randrange(1 << 16), "+", "LIMIT", limit)))
        print(f"omap: DELRANGE of {limit}, {count} times: {times('OMAP.DELRANGE')}", flush=True)

    client.config_set("slowlog-log-slower-than", 0)
    for words in (
        ("OMAP.COUNT", "m", "-", "[user4"),
        ("OMAP.COUNT", "m", "[user8", "+"),
        ("OMAP.RANDFIELD", "m"),
        ("OMAP.RANDFIELD", "m", "10"),
        ("HRANDFIELD", "h", "10"),
        ("OMAP.RANGE", "m", "[user8", "+", "LIMIT", "0", "1000"),
    ):
        durations = []
        for _ in range(5):
            client.slowlog_reset()
            client.execute_command(*words)
            durations.append(max(entry["duration"] for entry in client.slowlog_get(5) if entry["command"].startswith(words[0].encode())))
        print(f"{' '.join(words)}: {sorted(durations)[2] / 1000} ms", flush=True)

    client.execute_command("OMAP.SET", "other", *[b"%d" % (number // 2) for number in range(2000)])
    for key, how in (("h", "UNLINK"), ("m", "COPY"), ("m", "DEL"), ("copy", "UNLINK")):
        start()
        waits, ended = [], threading.Event()

        def ask():
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                request = encode("OMAP.GET", "other", "77")
                while not ended.is_set():
                    begun = time.perf_counter()
                    one.sendall(request)
                    one.recv(100)
                    waits.append(time.perf_counter() - begun)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(1)
        before = client.info("memory")["used_memory"]
        begun = time.perf_counter()
        client.execute_command(how, key, *(["copy"] if how == "COPY" else []))
        seconds = time.perf_counter() - begun
        while client.info("memory")["lazyfree_pending_objects"]:
            time.sleep(0.01)
        gone = time.perf_counter() - begun
        after = client.info("memory")["used_memory"]
        time.sleep(1)
        ended.set()
        asking.join()
        waits.sort()
        at = [waits[min(int(len(waits) * share), len(waits) - 1)] * 1000 for share in (0.5, 0.99, 0.999, 1)]
        print(f"{how} {key}: {seconds * 1000:.1f} ms, done after {gone * 1000:.0f} ms, {(before - after) >> 20} MB less; meanwhile gets took", end="")
        print(" {:.3f} ms (half), {:.3f} (99 %), {:.3f} (99.9 %), {:.3f} (all)".format(*at), flush=True)
    server.close()


if __name__ == "__main__":
    main()
