#!/usr/bin/env bash
# Types of both packages, strictly.
set -euo pipefail
cd "$(dirname "$0")/.."
mypy
