#!/bin/sh
# Remove from an environment what a server does not need. The argument is the folder of the environment.
set -eu
cd "$1"/lib/python3*/site-packages

# Tests, headers and stubs; NumPy's code generator and the module that only its tests load.
find . -type d -name tests -prune -exec rm -r {} +
find . -name '*.pyi' -delete
rm -r numpy/_core/include numpy/_core/_simd.* numpy/f2py

# PyArrow: headers, sources, its own client of S3 (the server has another), and copies of libraries under names that
# only a linker looks for.
rm -r pyarrow/include pyarrow/_s3fs.* pyarrow/libarrow_s3.so.*
find pyarrow \( -name '*.px[di]' -o -name '*.pyx' -o -name 'libarrow_python*.so' -o -name 'libarrow_python*.so.*.*' \) -delete

# AWS: descriptions of services other than the manifest store and the sources of credentials.
rm -r boto3/data boto3/examples
find botocore/data -mindepth 1 -maxdepth 1 -type d | grep -Ev '/(dynamodb|signin|sso|sso-oidc|sts)$' | xargs rm -r

# The second backend of zstandard, and languages that no stack trace is written in.
rm zstandard/_cffi.*
find pygments/lexers -name '[a-z]*.py' ! -name python.py -delete

# Symbols. The libraries in *.libs were patched after they were linked: strip can damage those.
find . -type f -name '*.so*' ! -path './*.libs/*' -exec strip --strip-unneeded {} +

# Bytecode names the time of its source, and layers of images keep whole seconds only.
find . -name '*.py' -exec touch --date=2000-01-01 {} +
