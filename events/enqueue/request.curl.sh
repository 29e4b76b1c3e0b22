#!/usr/bin/env bash
# Asks Expunge to evaluate one tenant now, and prints the answer of the function.
#
#   request.curl.sh <function> <policy> <tenant> <request-id> <reason>
#
# Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for a role,
# AWS_SESSION_TOKEN; the region from AWS_REGION. The same request id is the same
# request: sending it again after a lost answer is safe. curl 7.88 or newer.
set -euo pipefail

if [ $# -ne 5 ]; then
  echo "usage: request.curl.sh <function> <policy> <tenant> <request-id> <reason>" >&2
  exit 2
fi
: "${AWS_ACCESS_KEY_ID:?}" "${AWS_SECRET_ACCESS_KEY:?}" "${AWS_REGION:?}"
for value in "$@"; do
  case $value in
    *[\"\\]* | *[[:cntrl:]]*) echo "quotes, backslashes and control characters are not for this script" >&2; exit 2 ;;
  esac
done

endpoint=${AWS_ENDPOINT_URL_LAMBDA:-https://lambda.$AWS_REGION.amazonaws.com}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# The credentials go in through a pipe: arguments are visible to every user of the machine.
error=$(
  {
    printf 'user = "%s:%s"\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"
    if [ -n "${AWS_SESSION_TOKEN:-}" ]; then printf 'header = "X-Amz-Security-Token: %s"\n' "$AWS_SESSION_TOKEN"; fi
  } | curl --config - --silent --show-error --fail-with-body --max-time 90 --output "$answer" \
    --aws-sigv4 "aws:amz:$AWS_REGION:lambda" --header 'Content-Type: application/json' \
    --data-binary "{\"policy\":\"$2\",\"tenant\":\"$3\",\"request_id\":\"$4\",\"reason\":\"$5\"}" \
    --write-out '%header{x-amz-function-error}' "$endpoint/2015-03-31/functions/$1/invocations"
) || { cat "$answer" >&2; exit 1; }
# Lambda answers 200 for a function that failed; only this header says so.
if [ -n "$error" ]; then
  echo "refused: $(cat "$answer")" >&2
  exit 1
fi
cat "$answer"
echo
