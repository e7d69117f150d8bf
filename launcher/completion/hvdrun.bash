# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# bash completion for hvdrun(1): options until the program, then whatever the program completes to.

_hvdrun_sites() {
  hvdrun header --list 2>/dev/null | awk '!/^ / {print $1}'
}

_hvdrun_job_options="--site --partition --gpus --nodes --gpus-per-node --ntasks-per-node --cpus-per-task --time --account --qos
  --constraint --mem --switches --array --signal --output --job-name --exclusive --interactive --list --help"
_hvdrun_script_options="--modules --container --requeue --templates"

_hvdrun_options() {
  case $1 in
    header) echo "$_hvdrun_job_options" ;;
    script) echo "$_hvdrun_job_options $_hvdrun_script_options" ;;
    check) echo "--build --json --help" ;;
    *) echo "-np --nodes --cpus-per-rank --bind --smt --no-smt --mem-bind --report-bindings --gpu-visibility -x --site --output-dir --prefix --no-prefix --timestamp --grace --dry-run --verbose --help --version" ;;
  esac
}

_hvdrun() {
  local word=$2 previous=$3 command=${COMP_WORDS[1]} candidates
  case $previous in
    --site) candidates=$(_hvdrun_sites) ;;
    --bind) candidates='cores numa socket none map:' ;;
    --mem-bind) candidates='local none' ;;
    --gpu-visibility) candidates='all one' ;;
    --output-dir)
      compopt -o dirnames
      return
      ;;
    *)
      candidates=$(_hvdrun_options "$command")
      [ "$COMP_CWORD" -ne 1 ] || candidates+=' header script check explain run'
      ;;
  esac
  # The words are ours and hold no spaces.
  # shellcheck disable=SC2207
  COMPREPLY=($(compgen -W "$candidates" -- "$word"))
  if [ "${#COMPREPLY[@]}" -eq 0 ]; then
    compopt -o default
  fi
}

complete -F _hvdrun hvdrun
