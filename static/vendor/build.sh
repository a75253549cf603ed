#!/bin/sh
# `make vendor`: rebuild the third-party browser files in this folder. Needs node and npm; no page needs either.
set -eu
cd "$(dirname "$0")/build"
npm ci --ignore-scripts --no-audit --no-fund
node build.mjs
rm -rf node_modules # or collectstatic would serve it
