# shellcheck shell=bash
# The stock image of bash, as test/e2e has it.
dockerfile() { echo test/e2e/testdata/bash; }
