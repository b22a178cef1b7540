#!/usr/bin/env bash
# Each benchmark once, in this environment: proves that all of them run. Measures nothing that one may quote.
# asv exits 0 when benchmarks fail, so its report is read.
set -euo pipefail
cd "$(dirname "$0")/../asv_bench"
report="$(mktemp)"
trap 'rm -f "$report"' EXIT
asv machine --yes >/dev/null
asv run --python=same --quick --dry-run --show-stderr 2>&1 | tee "$report"
grep -q "···" "$report" || { echo "no benchmark ran" >&2; exit 2; }
if grep -Eq "failed|error" "$report"; then echo "a benchmark failed" >&2; exit 1; fi
