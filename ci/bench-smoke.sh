#!/bin/sh
# Checks the answers of every map on every key set with few keys, in less than a minute.
# No measurement: see docs/bench/METHOD.md. FANREAD is the program, built here unless it is set.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${FANREAD:-}" ]; then
    cargo build --quiet --release -p fanread-cli
fi
fanread="${FANREAD:-${CARGO_TARGET_DIR:-target}/release/fanread}"
workloads=load,scan-first,get,get-dep,miss,lower-bound,lower-bound-dep,batch,scan
workloads=$workloads,ycsb-c,ycsb-b,ycsb-a,ycsb-f,ycsb-d,ycsb-e,ycsb-b-scans,grow
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

"$fanread" bench --index all --count 1k --workload "$workloads" --batch 1,16,100 \
    --keys rand-8,rand-16,seq-8,osm,dist-a,dist-b,az,reddit,url,klong,k3,k4,k5,k6,k7,k8,k9,k10 \
    --json "$out/one.json" > "$out/one.txt"
"$fanread" bench --index all --count 20k --workload "$workloads" --threads 2 --dist zipf \
    --keys osm,reddit --json "$out/two.json" > "$out/two.txt"
find /usr -xdev -type f 2>/dev/null | head -n 20000 |
    "$fanread" bench --index all --keys - --json "$out/paths.json" > "$out/paths.txt"

measured="$(cat "$out"/*.json | grep -c '"outcome":"ok"')"
wrong="$(cat "$out"/*.json | grep -c '"outcome":"\(wrong-answers\|crashed\)"' || true)"
echo "bench-smoke: $measured figures, $wrong wrong or missing"
test "$measured" -gt 500 && test "$wrong" -eq 0
