#!/usr/bin/env bash
# A cluster for trying the module: three masters and three replicas on this machine.
#
#   examples/cluster.sh MODULE [FOLDER [PORT]]    starts it, with the module at this path, on six ports from 7701 on
#   examples/cluster.sh stop [FOLDER [PORT]]      stops it
#
#   redis-cli -c -p 7701 OMAP.SET fruit fig 3 kiwi 5 pear 2
#   redis-cli -c -p 7704 OMAP.RANGE fruit [g + LIMIT 0 10
#
# FOLDER has what the servers keep; it is ./fanread-cluster if not said, and stays when they stop. Ports 10000 above those of the
# servers are taken for what they tell each other.
set -euo pipefail
module=${1:?the path of libfanread_valkey.so, or stop}
folder=${2:-fanread-cluster}
first=${3:-7701}
server=${FANREAD_SERVER:-redis-server}
cli=${FANREAD_CLI:-redis-cli}
ports=$(seq "$first" $((first + 5)))

if [ "$module" = stop ]; then
  for port in $ports; do
    "$cli" -p "$port" shutdown nosave 2>/dev/null || true
  done
  exit
fi

module=$(realpath "$module")
known=yes
for port in $ports; do
  mkdir -p "$folder/$port"
  [ -e "$folder/$port/nodes.conf" ] || known=no
  "$server" --port "$port" --bind 127.0.0.1 --dir "$(realpath "$folder/$port")" --daemonize yes --logfile log --pidfile pid \
    --save "" --appendonly yes --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 2000 \
    --repl-diskless-sync-delay 0 --loadmodule "$module" >/dev/null
done
for port in $ports; do
  for _ in $(seq 100); do
    "$cli" -p "$port" ping >/dev/null 2>&1 && break
    sleep 0.1
  done
done
if [ $known = no ]; then
  # shellcheck disable=SC2046
  "$cli" --cluster create $(printf '127.0.0.1:%s ' $ports) --cluster-replicas 1 --cluster-yes >/dev/null
fi
for _ in $(seq 300); do
  "$cli" -p "$first" cluster info | grep -q cluster_state:ok && break
  sleep 0.1
done
"$cli" -p "$first" cluster nodes
