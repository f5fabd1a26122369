#!/bin/sh
# Prints how many cores may be kept busy here: those of the affinity, and no more than the CPU quota of the control groups
# (v1 and v2) and their parents, rounded up, as src/base/cores.h reads it.
#
#   tools/cores.sh [ROOT]     (of proc and sys; default: the system's)
root=${1:-}
cores=$(nproc)

bound() { # QUOTA PERIOD, microseconds; "max" or -1: none
  case "$1$2" in '' | *[!0-9]*) return ;; esac
  [ "$1" -gt 0 ] && [ "$2" -gt 0 ] || return
  quota=$((($1 + $2 - 1) / $2))
  [ "$quota" -ge "$cores" ] || cores=$quota
}

bounds() { # HIERARCHY GROUP: of the group and its parents
  group=$2
  while :; do
    folder=$root/sys/fs/cgroup$1$group
    if [ -r "$folder/cpu.max" ]; then
      read -r quota period <"$folder/cpu.max"
      bound "$quota" "$period"
    elif [ -r "$folder/cpu.cfs_quota_us" ]; then
      bound "$(cat "$folder/cpu.cfs_quota_us")" "$(cat "$folder/cpu.cfs_period_us")"
    fi
    [ -n "$group" ] || break
    group=${group%/*}
  done
}

bounds "" "$(sed -n 's/^0:://p' "$root/proc/self/cgroup" 2>/dev/null)"
for hierarchy in /cpu /cpu,cpuacct; do
  bounds $hierarchy "$(sed -n 's/^[0-9]*:cpu\(,cpuacct\)\{0,1\}:\(.*\)/\2/p' "$root/proc/self/cgroup" 2>/dev/null | head -n 1)"
done
echo "$cores"
