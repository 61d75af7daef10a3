#!/bin/sh
# At pre_tool_call: the call as JSON on standard input; exit code 2 stops it with the words of standard error.
if grep -q 'push.*--force'; then
  echo "force pushes are not made from here" >&2
  exit 2
fi
