#!/bin/sh
# Make the secrets of compose.yaml in a folder: a signing key, the credentials of the store, a certificate, and the
# accounts `spark` and `ana` with a token each. The folder belongs to its user alone. The files in it can be read by
# everybody, because the user of a container is another one.
#
#     make_secrets.sh FOLDER [NAME]
#
# NAME is the host name of the proxy (lance.example).
set -eu
mkdir -p "$1"
chmod 700 "$1"
cd "$1"
name=${2:-lance.example}

openssl rand -hex 32 > signing-key
printf lance > store-user
openssl rand -hex 16 | tr -d '\n' > store-password
cat > store.json <<END
{
  "aws_endpoint": "http://store:9000",
  "aws_region": "us-east-1",
  "aws_access_key_id": "lance",
  "aws_secret_access_key": "$(cat store-password)",
  "allow_http": "true"
}
END

: > accounts.toml
for subject in spark ana; do
    lance-flight token make -o $subject.token
    cat >> accounts.toml <<END
[[account]]
subject = "$subject"
tokens = ["$(lance-flight token hash < $subject.token)"]

END
done

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=$name" \
    -addext "subjectAltName=DNS:$name,DNS:localhost,IP:127.0.0.1" -keyout tls.key -out tls.crt
chmod 644 ./*
