#!/usr/bin/env bash
# Every test, on two workers; arguments go to pytest. No test collected is a failure (pytest's exit code 5).
set -euo pipefail
cd "$(dirname "$0")/.."
export HYPOTHESIS_PROFILE="${HYPOTHESIS_PROFILE:-ci}"
exec pytest -n "${TEST_WORKERS:-2}" --dist worksteal "$@"
