#!/usr/bin/env bash
# From nothing to text written by a model of one's own; see --help.
set -euo pipefail

say_usage() {
  cat <<'END'
tools/quickstart.sh [options] [TEXT...]

Installs what is missing (and says so before), builds Trireme, trains a tokenizer and a small GPT on English
text for about three minutes on two cores, measures its loss and prints text that it writes.

  TEXT            files or folders of plain text; default: the prose of the Perl manuals (package perl-doc)
  --steps N       training steps instead of those in configs/quickstart.toml
  --prompt TEXT   what the model continues (default "The function")
  --tokens N      how many tokens it writes (default 120)
  --resume        go on in runs/quickstart: keep its text, tokenizer and checkpoints
  --no-setup      install nothing
  --help          this page

Results are in runs/quickstart. Without --resume every start is a new one: an earlier result is kept, renamed
to runs/quickstart-1, -2 and so on. Stop with Ctrl-C: a checkpoint is written, and --resume goes on from it.
END
}

fail() {
  echo "quickstart: error: $*" >&2
  exit 2
}

say() {
  printf '\n== %s (at %d s)\n' "$1" "$SECONDS"
}

# Prints the files below the given paths that hold text, one path and a NUL each.
list_text_files() {
  find -L "$@" -type f -size +0 -print0 | LC_ALL=C sort -z | xargs -0 -r grep -IlZ . || true
}

# The prose of the Perl manuals: code samples, translations, index and tables left out, markup removed.
print_perl_manuals() {
  local pages
  pages=$(dpkg -L perl-doc 2>/dev/null | grep '/perl[^/]*\.pod$' | grep -v -E '/perl(cn|jp|ko|tw|toc|uniprops)\.pod$' || true)
  [ -n "$pages" ] || fail "no Perl manuals here (package perl-doc): give files or folders of plain text"
  {
    printf '=encoding utf8\n\n'
    # One process a page: a last line without a line end must not run into the next page.
    while read -r page; do
      awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^[ \t]/ && !/^=(encoding|cut|for|pod)/' "$page"
    done <<<"$pages"
  } | pod2text --utf8 --indent=0 --width=100000
}

# Reads text; of every 200 paragraphs the last 10 go to the file VALID, the others to TRAIN:  split_text TRAIN VALID
split_text() {
  tr -d '\r' |
    awk -v train="$1" -v valid="$2" 'BEGIN { RS = ""; ORS = "\n\n" } { print > (NR % 200 < 190 ? train : valid) }'
}

texts=()
steps=()
prompt="The function"
tokens=120
resume=no
setup=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h) say_usage; exit 0 ;;
    --steps | --prompt | --tokens)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case "$1" in
        --steps)
          [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || fail "--steps $2: a whole number above 0 is needed"
          steps=("--run.steps=$2" "--schedule.warmup_steps=$(($2 / 15))")
          ;;
        --prompt) prompt=$2 ;;
        --tokens) tokens=$2 ;;
      esac
      shift
      ;;
    --resume) resume=yes ;;
    --no-setup) setup=no ;;
    -*) fail "option $1: accepted are --steps, --prompt, --tokens, --resume, --no-setup, --help" ;;
    *)
      [ -e "$1" ] || fail "$1: no such file or folder; give files or folders of plain text"
      texts+=("$(realpath -- "$1")")
      ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
directory=runs/quickstart
trireme=build/tools/trireme

if [ "$setup" = yes ]; then
  say "packages"
  if [ ${#texts[@]} = 0 ]; then tools/setup.sh text; else tools/setup.sh; fi
fi
say "build"
tools/build.sh build trireme -DCMAKE_BUILD_TYPE=Release

if [ "$resume" = no ] && [ -e $directory ]; then
  number=1
  while [ -e "$directory-$number" ]; do number=$((number + 1)); done
  mv $directory "$directory-$number"
  echo "quickstart: the earlier result is now $directory-$number"
fi
mkdir -p $directory/text $directory/corpus

if [ ! -e $directory/corpus/valid.idx ]; then
  rm -f $directory/text/*.txt $directory/corpus/* $directory/tokenizer.json
  say "text"
  if [ ${#texts[@]} = 0 ]; then
    print_perl_manuals
  else
    list_text_files "${texts[@]}" | xargs -0 -r cat --
  fi | split_text $directory/text/train.txt $directory/text/valid.txt
  [ -s $directory/text/valid.txt ] || fail "too little text: 200 paragraphs between empty lines are needed"
  wc -c $directory/text/*.txt

  say "tokenizer"
  $trireme tokenizer train $directory/text/train.txt --vocab 4096 --output $directory/tokenizer.json
  say "tokens"
  for part in train valid; do
    $trireme tokenize $directory/text/$part.txt --tokenizer $directory/tokenizer.json --output $directory/corpus/$part
  done
fi

say "training"
status=0
$trireme train configs/quickstart.toml "${steps[@]}" || status=$?
if [ $status != 0 ]; then
  echo "quickstart: training ended with status $status; tools/quickstart.sh --resume goes on from the last checkpoint" >&2
  exit $status
fi

say "loss on text not trained on"
$trireme eval $directory --data $directory/corpus/valid
say "text by the model, after \"$prompt\""
$trireme generate $directory --prompt "$prompt" --tokens "$tokens" --temperature 0.8 --top-k 40 --seed 1
printf '\nquickstart: done in %d s. More: %s generate %s --prompt "..."\n' "$SECONDS" "$trireme" "$directory"
