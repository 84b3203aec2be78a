#!/bin/sh
# mpi_faults.sh PROGRAM MODE STATUS [TEXT]: runs three ranks; the job must end by itself, with status 0 or not as
# STATUS (ok, fails) says, and the last line that a rank writes must be TEXT.
program=$1
mode=$2
status=$3
text=$4
out=$(timeout 60 "$(dirname "$0")/../mpirun.sh" 3 "$program" "$mode" 2>&1)
code=$?
echo "$out"
echo "exit status $code"
[ $code -ne 124 ] || { echo "the job did not end"; exit 1; }
if [ "$status" = ok ]; then
  [ $code -eq 0 ] || exit 1
else
  [ $code -ne 0 ] || exit 1
fi
[ -z "$text" ] || [ "$(echo "$out" | grep '^rank ' | tail -n 1)" = "$text" ]
