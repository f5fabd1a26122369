#!/usr/bin/env bash
# Builds the tests of build folders at idle priority, one folder after the other, while a make does something else.
#
#   tools/build_behind.sh OWNER JOBS FOLDER...    begins, and returns; what was begun before is ended first
#   tools/build_behind.sh --end                   ends it, and returns when nothing of it runs any more
#
# It ends by itself when process OWNER, the make, is gone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
noted=build/behind.pid

is_builder() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -q 'build_behind\.sh --build'; }

end() {
  [ -f "$noted" ] || return 0
  local builder deadline=$((SECONDS + 120))
  builder=$(cat "$noted")
  if is_builder "$builder"; then
    kill -- "-$builder" 2>/dev/null || true
    while pgrep -g "$builder" >/dev/null; do
      [ $SECONDS -lt $deadline ] || { echo "build_behind.sh: process group $builder does not end within 120 s" >&2; exit 1; }
      sleep 0.1
    done
  fi
  rm -f "$noted"
}

case "${1:-}" in
  --end) end ;;
  --build)  # OWNER JOBS FOLDER...
    owner=$2 jobs=$3
    shift 3
    while kill -0 "$owner" 2>/dev/null; do sleep 1; done && kill -- "-$$" &
    watcher=$!
    for folder; do chrt --idle 0 ninja -C "$folder" -j "$jobs" tests >"$folder/behind.log" 2>&1 || break; done
    kill "$watcher" ;;
  [1-9]*)
    end
    set -m  # a process group, and no session: the scheduler would give a session a share of its own
    bash tools/build_behind.sh --build "$@" >/dev/null 2>&1 </dev/null &
    echo $! >"$noted" ;;
  *) echo "Usage: tools/build_behind.sh OWNER JOBS FOLDER... | --end" >&2; exit 2 ;;
esac
