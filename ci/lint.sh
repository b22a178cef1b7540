#!/usr/bin/env bash
# Format, lint, import layers, contracts. Needs ruff and import-linter; reads the code, imports none of it.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "lint: ruff format, ruff check"
ruff format --check .
ruff check .
echo "lint: import layers"
PYTHONPATH=. lint-imports --no-cache
echo "lint: contracts"
python -m contracts check engine contracts
