#!/usr/bin/env bash
# Fuzzes one target for TRIREME_FUZZ_SECONDS from its seeds:  run.sh TARGET SEEDS WORK
# Words of the format are taken from SEEDS.dict. Inputs that fail are left in WORK/failures, those that reach new code in WORK/corpus.
set -euo pipefail
target=$1
seeds=$2
work=$3
mkdir -p "$work/corpus" "$work/failures"
folders=("$work/corpus")
if [ -d "$seeds" ]; then folders+=("$seeds"); fi
options=()
if [ -e "$seeds.dict" ]; then options+=("-dict=$seeds.dict"); fi
exec "$target" "${options[@]}" -max_total_time="${TRIREME_FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -verbosity=0 -artifact_prefix="$work/failures/" "${folders[@]}"
