#!/bin/sh
# Fill /install, which is copied over /usr/local of an image, in two steps: a change of the code repeats the second only.
#
#   install.sh packages EXTRA    what the project needs with this extra, at the versions and hashes of the lock file
#   install.sh wheel             the project itself, from /wheels
set -eu

case $1 in
packages)
    python deploy/locked.py "minikafka[$2]" > /packages.lock
    # pyspark comes as source, and is built by the setuptools that is installed already.
    pip install --require-hashes --no-build-isolation --prefix /install --no-compile -r /packages.lock
    # What only tests and C compilers need.
    find /install -type d \( -name tests -o -name test -o -name include \) -prune -exec rm -rf {} +
    ;;
wheel)
    pip install --no-deps --prefix /install --no-compile /wheels/*.whl
    ;;
esac

# Where it runs the root file system may be read-only, so everything is compiled here.
python -m compileall -q --invalidation-mode unchecked-hash /install/lib
