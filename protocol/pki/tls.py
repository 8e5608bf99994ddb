"""TLS 1.3 and nothing older, through gRPC.

gRPC's Python API has no setting for the version. It has one for the cipher suites of TLS 1.2 (those of 1.3 are not subject to
it): the environment variable GRPC_SSL_CIPHER_SUITES. Suites that sign with RSA cannot be used with certificates on P-256, and
ours are all on P-256, so with those alone no handshake of 1.2 finds a suite, at either end. gRPC reads the variable when it is
imported, and not again. Measured with grpcio 1.85.1 and openssl 3.0: s_client -tls1_2 is refused (NO_SHARED_CIPHER), and so is
s_server -tls1_2 by our client; -tls1_3 connects. Set after the import, both versions connect.
"""

import os
import sys

VARIABLE = "GRPC_SSL_CIPHER_SUITES"
NOT_WITH_P256 = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384"


def require_tls13() -> None:
    """From now on gRPC in this process takes TLS 1.3 alone. Call it before anything imports grpc.

    Raises RuntimeError if grpc was imported before, without it: it would have no effect.
    """
    if os.environ.get(VARIABLE) == NOT_WITH_P256:
        return
    if "grpc" in sys.modules:
        raise RuntimeError(f"grpc was imported before TLS 1.3 was required: import it later, or set {VARIABLE}={NOT_WITH_P256}")
    os.environ[VARIABLE] = NOT_WITH_P256


def requires_tls13() -> bool:
    """Whether it does, as far as this process set it."""
    return os.environ.get(VARIABLE) == NOT_WITH_P256
