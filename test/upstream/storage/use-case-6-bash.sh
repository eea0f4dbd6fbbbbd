# shellcheck shell=bash
# The stock image of bash, as test/e2e has it.
recipe() { echo test/e2e/testdata/bash.yaml; }
