#!/usr/bin/env bash
# Copies built programs and the shared libraries that they need into a folder, stripped, for a machine of a newer system that
# lacks these libraries (one with more cores, or a GPU):
#
#   tools/pack_programs.sh DIR [PROGRAM...]     (default: all of build/bin)
#
# There LD_LIBRARY_PATH=DIR/lib DIR/bin/PROGRAM runs one; tools/*.py take DIR/bin as build/bin. The C and C++ libraries stay
# behind: that machine has its own, and other programs there need those.
set -euo pipefail
[ $# -gt 0 ] || { echo "pack_programs.sh: usage: tools/pack_programs.sh DIR [PROGRAM...]" >&2; exit 2; }
folder=$(realpath -m "$1")
shift
programs=$(dirname "$0")/../build/bin
[ -d "$programs" ] || { echo "pack_programs.sh: there are no programs; run make programs first" >&2; exit 1; }
cd "$programs"
[ $# -gt 0 ] || set -- *
for program in "$@"; do
  [ -x "$program" ] || { echo "pack_programs.sh: build/bin has no program '$program'" >&2; exit 1; }
done

mkdir -p "$folder/bin" "$folder/lib"
for program in "$@"; do
  strip -o "$folder/bin/$program" "$program"
done
ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
  grep -vE '/lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so' |
  while read -r library; do
    strip --strip-unneeded -o "$folder/lib/$(basename "$library")" "$(realpath "$library")"
  done
du -sh "$folder"
