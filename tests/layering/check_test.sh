#!/usr/bin/env bash
# Negative controls: each bad file makes check.sh fail and name that file; the good tree passes.
#   check_test.sh CHECK
set -euo pipefail
check=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
wrong=0

put() {
  mkdir -p "$root/$(dirname "$1")"
  printf '%s\n' "$2" >"$root/$1"
}

# expect_refusal FILE LINE: a tree with LINE in FILE is refused, with FILE in the message.
expect_refusal() {
  put "$1" "$2"
  if message=$(bash "$check" "$root") || ! grep -qF "$1:1:" <<<"$message"; then
    echo "not refused: $1 with $2"
    wrong=1
  fi
  rm "$root/$1"
}

put core/good.h '#include <vector>'
put parallel/good.h '#include "core/good.h"'
put model/good.h '#include "parallel/good.h"'
put data/good.h '#include "core/good.h"'
put train/good.h '#include "model/good.h"'
put tools/good.cpp '#include "train/good.h"'
put tests/good_test.cpp '#include "data/good.h"'
bash "$check" "$root"

for pair in core:parallel core:model core:data core:train core:tools core:tests parallel:model parallel:data parallel:train \
  model:data model:train model:tools data:model data:parallel data:train data:tools train:tools train:tests tools:tests; do
  expect_refusal "${pair%:*}/bad.h" "#include \"${pair#*:}/good.h\""
done
expect_refusal core/bad.cpp '  #  include <model/good.h>'
expect_refusal model/bad.cu '#include "../data/good.h"'
expect_refusal data/deeper/bad.h '#include "../../model/good.h"'
expect_refusal core/bad.h '#include "good.h"'

seq 601 >"$root/core/long.h"
if bash "$check" "$root" >/dev/null; then echo "601 lines not refused"; wrong=1; fi
seq 600 >"$root/core/long.h"
if ! bash "$check" "$root"; then echo "600 lines refused"; wrong=1; fi
if bash "$check" "$(mktemp -d -p "$root")" >/dev/null; then echo "an empty tree is not refused"; wrong=1; fi
exit $wrong
