#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What runs inside the namespaces of the test cluster. Started by cluster.py, never by hand.
#   machine_room.sh room DIR            process 1 of the outer set: login node, controller, bridge
#   machine_room.sh plug DIR NODE ADDR  makes the namespaces of one node and joins them to the bridge
#   machine_room.sh node DIR NODE ADDR  process 1 of a node
set -u
self=$(readlink -f "$0")
role=$1
dir=$2

# until_true SECONDS command...: polls a condition of another process, with a deadline.
until_true() {
  local left=$(($1 * 50))
  shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 0.02
  done
}

namespaces=(--net --uts --mount --ipc --pid --fork --kill-child=KILL --mount-proc)

own_shm() { mount -t tmpfs -o mode=1777 tmpfs /dev/shm; }

room() {
  ulimit -c 0
  mount --make-rprivate /
  hostname login
  mkdir -p /etc/slurm /run/munge
  mount --bind "$dir/etc/hosts" /etc/hosts
  mount --bind "$dir/etc/slurm" /etc/slurm
  mount --bind "$dir/run/munge" /run/munge
  own_shm
  ip link set lo up
  ip link add br0 type bridge
  ip addr add 10.66.0.1/24 dev br0
  ip link set br0 up
  munged --force --num-threads=4 --key-file="$dir/munge.key" --seed-file="$dir/munge.seed" \
    --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid --log-file="$dir/log/munged.log"
  slurmctld -c -D </dev/null >/dev/null 2>&1 &
  while read -r address name; do
    case $address in 127.* | 10.66.0.1) continue ;; esac
    "$self" plug "$dir" "$name" "$address" </dev/null &
  done <"$dir/etc/hosts"
  # The write end of this pipe is the test's: when the test ends in any way, so does every process here.
  # bash reaps orphans while it reads.
  read -r _
}

plug() {
  local name=$1 address=$2 shell init
  mkdir -p "$dir/spool/$name" "$dir/tmp/$name"
  chmod 1777 "$dir/tmp/$name"
  rm -f "$dir/run/plugged-$name"
  unshare "${namespaces[@]}" "$self" node "$dir" "$name" "$address" &
  shell=$!
  until_true 10 grep -q . "/proc/$shell/task/$shell/children" || exit 1
  read -r init _ <"/proc/$shell/task/$shell/children"
  echo "$init" >"$dir/run/node-$name.pid"
  ip link del "v-$name" 2>/dev/null
  ip link add "v-$name" type veth peer name eth0 netns "$init"
  ip link set "v-$name" master br0 up
  touch "$dir/run/plugged-$name"
  wait "$shell"
}

node() {
  local name=$1 address=$2
  hostname "$name"
  until_true 10 test -e "$dir/run/plugged-$name" || exit 1
  ip link set lo up
  ip addr add "$address/24" dev eth0
  ip link set eth0 up
  own_shm
  slurmd -D </dev/null >/dev/null 2>&1 &
  # Process 1 of the node: reaps the orphaned step daemons for as long as the node has power.
  while :; do
    wait
    sleep 0.2
  done
}

case $role in
  room) room ;;
  plug) plug "$3" "$4" ;;
  node) node "$3" "$4" ;;
esac
