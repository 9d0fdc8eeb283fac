"""Credentials of profiles in `~/.aws`, read with boto3: the client of the object stores cannot read them."""

import os
from collections.abc import Mapping
from typing import Any

from lance_core.errors import UnsupportedFeatureError

_OTHER_SOURCES = (
    "aws_access_key_id",
    "aws_skip_signature",
    "aws_web_identity_token_file",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
)
"""Settings that give credentials, or say that there are none."""


def profile_credentials(settings: Mapping[str, str]) -> Any:
    """Return a provider of credentials for the client, or None if the client finds credentials by itself.

    A profile is used if `AWS_PROFILE` is set or a credentials file exists, unless the settings give other
    credentials.

    Raises:
        UnsupportedFeatureError: boto3 is not installed.
    """
    if any(key in settings for key in _OTHER_SOURCES):
        return None
    file = os.path.expanduser(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    if "AWS_PROFILE" not in os.environ and not os.path.isfile(file):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise UnsupportedFeatureError("AWS profiles need the package boto3") from None
    return Boto3CredentialProvider()
