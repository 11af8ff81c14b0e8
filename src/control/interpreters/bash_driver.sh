# Atoll's shell driver: runs inside the sandbox, talks over descriptor 3.
#
# In: lines "exec ID BASE64(CODE) [ENVIRONMENT]", "resize ROWS COLUMNS". Out: JSON lines. The code is evaluated in this very shell, so
# variables, functions, options and the working directory stay. SIGINT ends the running code: its
# trap returns from __atoll_run (inside a function of the code: from that function).
__atoll_run() {
  # The code must not read the channel, and what it starts must not inherit it.
  eval "$1" 3>&- 4>&- </dev/null
}
# Memory that goes on as another sandbox (a fork) must not draw the same numbers.
__atoll_renew() {
  local now=
  { read -r now < /proc/sys/kernel/random/boot_id; } 2>/dev/null
  [ "$now" = "$__atoll_boot" ] && return
  [ -n "$__atoll_boot" ] && RANDOM=${SRANDOM:-$$}
  __atoll_boot=$now
}
# Sets variables for one execution; __atoll_undo becomes what brings back what was before.
__atoll_set() {
  local pair name value
  __atoll_undo=
  for pair in ${1//,/ }; do
    name=$(printf %s "${pair%%:*}" | base64 -d 3>&-)
    value=$(printf %s "${pair#*:}" | base64 -d 3>&-; printf x)
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    __atoll_undo+="$(declare -p "$name" 2>/dev/null || printf 'unset -v %s' "$name");"
    export "$name=${value%x}"
  done
}
__atoll_count=0
__atoll_boot=
__atoll_renew
__atoll_leave='__atoll_interrupted=1
  return 130'
trap : INT
printf '{"op":"ready","language":"bash","version":"%s"}\n' "$BASH_VERSION" >&3
while IFS=' ' read -r -u 3 __atoll_verb __atoll_id __atoll_body __atoll_environment; do
  [ "$__atoll_verb" = resize ] && export LINES=$__atoll_id COLUMNS=$__atoll_body
  [ "$__atoll_verb" = exec ] || continue
  __atoll_code=$(printf %s "$__atoll_body" | base64 -d 3>&-; printf x)
  __atoll_renew
  [ -z "$__atoll_environment" ] || IFS=' ' __atoll_set "$__atoll_environment"
  __atoll_interrupted=
  trap "$__atoll_leave" INT
  __atoll_run "${__atoll_code%x}"
  __atoll_status=$?
  trap : INT
  [ -z "$__atoll_environment" ] || eval "$__atoll_undo"
  __atoll_count=$((__atoll_count + 1))
  if [ -n "$__atoll_interrupted" ]; then __atoll_word=interrupted
  elif [ "$__atoll_status" -eq 0 ]; then __atoll_word=ok
  else __atoll_word=error; fi
  printf '{"op":"done","id":"%s","status":"%s","exit_code":%d,"count":%d}\n' \
    "$__atoll_id" "$__atoll_word" "$__atoll_status" "$__atoll_count" >&3
done
