# For drivers in languages that cannot read a socket: the channel becomes two pipes, 5 to read from
# and 4 to write to, and the driver itself a file without a name, 6. Arguments: the program, the
# driver.
program=$0 driver=$1
command -v "$program" >/dev/null || exit 127
export LANG=${LANG:-C.UTF-8}
file=$(mktemp) && printf '%s\n' "$driver" >"$file" && exec 6<"$file" && rm "$file" || exit 1
exec 4> >(trap '' INT; exec cat >&3) 5< <(trap '' INT; exec cat <&3 4>&-) 3>&-
case $program in
  R) exec R --no-echo --no-save --no-restore --file=/dev/fd/6 ;;
  jshell) exec java --add-modules jdk.jshell --source 17 /dev/fd/6 ;;
esac
